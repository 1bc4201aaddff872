"""As on any device of torch's, with fewer places for calls in a row."""

from __future__ import annotations

from ..sets import Reference
from ..torch_device.referee import (
    Desk,
    after_answer,
    device_store,
    free_bytes,
    key_parts,
    look,
    too_large,
)

__all__ = ["after_answer", "desk", "device_store", "free_bytes", "key_parts", "look", "too_large"]


class FewPlaces(Desk):
    def _places(self) -> int:
        return min(super()._places(), 4)


def desk(reference: Reference) -> Desk:
    return FewPlaces(reference)
