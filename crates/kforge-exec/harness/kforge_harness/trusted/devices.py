"""The part of the referee that knows its device, by the name of the device's package."""

from __future__ import annotations

import importlib
from typing import Any, Protocol, cast

import torch

from ..shared import device_context, layout
from .device_store import DeviceStore
from .problem import Drawn, Problem
from .sets import Reference


class Desk(Protocol):
    """Lays inputs and takes results, where sets are kept on the device."""

    def perform(self, request: dict[str, Any], attached: list[int]) -> tuple[dict[str, Any], list[int]]:
        """An answer, and descriptors that go with it and are then no longer needed here."""

    def taken(self, side: int, place: int) -> torch.Tensor:
        """A private copy of the results of one call."""

    def forget_fresh(self) -> None:
        """The inputs that were drawn last."""

    def lay_out(self, fields: list[layout.Field], drawn: list[Drawn]) -> None:
        """Inputs of a row as they will be in places."""

    @property
    def is_crowded(self) -> bool:
        """Whether the device has room for one call at a time."""


class RefereeModule(Protocol):
    """The module `referee` of a device's package."""

    def key_parts(self) -> list[str]:
        """By which what is kept of a problem on this device is told from what is kept on others."""

    def after_answer(self) -> None:
        """Before the next request is waited for."""

    def look(self, problem: Problem, shapes: list[dict[str, int]]) -> dict[str, int]:
        """What judging a problem holds of the device's memory at its worst."""

    def too_large(self, reference: Reference | None, error: BaseException) -> str:
        """Why a problem cannot be judged that found no memory."""

    def device_store(self, tight: bool) -> DeviceStore | None:
        """Where sets are kept, if that is on the device."""

    def free_bytes(self) -> float: ...

    def desk(self, reference: Reference) -> Desk | None:
        """Nothing where kforge itself lays inputs and takes results."""


def referee() -> RefereeModule:
    return cast(RefereeModule, importlib.import_module(f".{device_context.kind()}.referee", __package__))
