"""Results that a cell has copied to memory of the host, because nobody can read the device's own from outside.

A copy says nothing of the memory that a result was in: whether it is used again for the next one, or written to later, is not
seen. That is a reason why times are provisional here.
"""

from __future__ import annotations

import os
from typing import Any

import torch

from ...shared import device_context, layout
from ...shared.slot_layout import INPUT_SLOT


class Unreadable(Exception):
    """What a cell says of its results makes no sense."""


def view(memory: torch.Tensor, field: layout.Field, claim: dict[str, Any]) -> torch.Tensor:
    """One result in memory that a cell writes to; it must not reach beyond."""
    at, strides = claim["at"], claim["strides"]
    item = field.torch_dtype.itemsize
    reach = (1 + sum((size - 1) * stride for size, stride in zip(field.shape, strides, strict=True))) * item
    if at % item or at + reach > memory.numel():
        raise Unreadable("it reaches beyond its memory")
    return memory[at : at + reach].view(field.torch_dtype).as_strided(field.shape, strides)


class Copies:
    def __init__(self, inputs: torch.Tensor, copies: torch.Tensor) -> None:
        self._inputs, self._copies = inputs, copies

    def learn(self, cell: int, sizes: list[int], files: list[int]) -> None:
        for file in files:
            os.close(file)
        if files:
            raise Unreadable("a cell handed over memory, which nobody asked for")

    def views(
        self, fields: list[layout.Field], shares: list[bool], calls: list[list[dict[str, Any]]]
    ) -> list[list[torch.Tensor]]:
        return [[self._view(field, claim) for field, claim in zip(fields, call, strict=True)] for call in calls]

    def _view(self, field: layout.Field, claim: dict[str, Any]) -> torch.Tensor:
        if field.nbytes == 0:
            return torch.empty(field.shape, dtype=field.torch_dtype, device=device_context.device())
        if claim["segment"] not in (0, INPUT_SLOT):
            raise Unreadable("it is in memory of the device that only its own process can see")
        return view(self._copies if claim["segment"] == 0 else self._inputs, field, claim)

    def stamp(self, fill: bool) -> dict[str, Any]:
        return {"reuses": False, "kind": "", "text": ""}

    def hold(self) -> None:
        """A copy is not what the candidate holds."""

    def held_are_intact(self) -> bool:
        return True

    def left_are_intact(self) -> bool:
        return True

    def forget(self) -> None:
        """Nothing of it is kept."""
