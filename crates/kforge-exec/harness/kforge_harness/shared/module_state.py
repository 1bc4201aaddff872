"""Tensors of a module that its calls change, and how they are put back: the same for a reference and for a candidate."""

from __future__ import annotations

from typing import Any

import torch


class State:
    """Tensors of a module that its calls change: the objects and their values, to put both back."""

    def __init__(self, model: Any, paths: list[str], values: list[torch.Tensor] | None = None) -> None:
        """As they are now, or with other values."""
        self._kept: list[tuple[Any, str, torch.Tensor, torch.Tensor]] = []
        for index, path in enumerate(paths):
            owner, leaf = owner_of(model, path)
            tensor = getattr(owner, leaf)
            value = tensor if values is None else values[index]
            self._kept.append((owner, leaf, tensor, value.detach().to(tensor.device, tensor.dtype, copy=True)))

    def restore(self) -> None:
        # In inference mode, since `prepare` may have made tensors there, which cannot be written to outside of it.
        with torch.inference_mode():
            for owner, leaf, tensor, value in self._kept:
                if getattr(owner, leaf, None) is not tensor:  # a call may bind another tensor to the name
                    setattr(owner, leaf, tensor)
                tensor.copy_(value)


def owner_of(model: Any, path: str) -> tuple[Any, str]:
    """The module that has a tensor by a dotted name, and the last part of that name."""
    where, _dot, leaf = path.rpartition(".")
    return model.get_submodule(where), leaf
