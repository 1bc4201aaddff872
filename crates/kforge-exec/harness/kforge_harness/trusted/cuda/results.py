"""Results of a cell on a GPU, seen from the trusted side: read where the cell left them, in memory that both map.

Once they are taken their memory is filled with a pattern in which no two words are alike: memory that is mapped twice
shows, a buffer that is used again holds nothing of use, and whoever writes there later is found out.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import torch

from ...shared import device_context, layout
from ...shared.cuda import driver as cuda_driver
from ...shared.cuda import memory as device_memory
from ...shared.slot_layout import INPUT_SLOT
from ..torch_device.results import Unreadable, view

_MOST_SEGMENTS = 256


class Results:
    def __init__(self, driver: cuda_driver.Driver, inputs: torch.Tensor, copies: torch.Tensor) -> None:
        self._driver = driver
        self._inputs, self._copies = inputs, copies
        self._cell = -1
        self._segments: list[tuple[int, int, torch.Tensor]] = []  # address, size, bytes
        self._now: list[torch.Tensor] = []  # what was taken last
        self._left: list[torch.Tensor] = []  # the same once they were looked at
        self._filled = False
        self._held: list[torch.Tensor] = []
        self._seed = int.from_bytes(os.urandom(4), "little")

    def learn(self, cell: int, sizes: list[int], files: list[int]) -> None:
        """Maps memory that a cell handed over; another cell starts counting again."""
        try:
            if cell != self._cell:
                self.forget()
                self._cell = cell
            if len(self._segments) + len(sizes) > _MOST_SEGMENTS:
                raise Unreadable("it lies in more pieces of memory than can be mapped")
            for size, file in zip(sizes, files, strict=True):
                if not 0 < size < 1 << 48:
                    raise Unreadable("a piece of memory has no size")
                address = self._driver.map(file, size)
                self._segments.append((address, size, device_memory.device_bytes(address, size)))
        finally:
            for file in files:
                os.close(file)

    def views(
        self, fields: list[layout.Field], shares: list[bool], calls: list[list[dict[str, Any]]]
    ) -> list[list[torch.Tensor]]:
        found = [[self._view(field, claim) for field, claim in zip(fields, call, strict=True)] for call in calls]
        # What the reference shares or writes is neither filled nor must it be memory of its own. Nor a copy, which lies where
        # the one before it lay.
        self._now = [
            view
            for call, claims in zip(found, calls, strict=True)
            for view, shared, claim in zip(call, shares, claims, strict=True)
            if not shared and claim["segment"] != 0
        ]
        return found

    def _view(self, field: layout.Field, claim: dict[str, Any]) -> torch.Tensor:
        number = claim["segment"]
        if field.nbytes == 0:
            return torch.empty(field.shape, dtype=field.torch_dtype, device=device_context.device())
        if number == INPUT_SLOT:
            memory = self._inputs
        elif number == 0 and self._copies.numel() > 1:
            memory = self._copies
        elif 0 < number <= len(self._segments):
            memory = self._segments[number - 1][2]
        else:
            raise Unreadable("it lies in memory of the device that only its own process can see")
        return view(memory, field, claim)

    def stamp(self, fill: bool) -> dict[str, Any]:
        """Looks at what was taken last: whether it is memory of its own, and whether earlier results were left alone."""
        now, earlier, was_filled = self._now, self._left, self._filled
        self._now, self._left, self._filled = [], now, fill
        reuses = _any_meet([*earlier, *now])
        if fill and reuses:
            text = "results of different calls are the same memory: a later call overwrites an earlier result"
            return {"reuses": True, "kind": "alias", "text": text}
        if was_filled and not self._are_filled(earlier):
            text = "the output changed after it had been handed over"
            return {"reuses": reuses, "kind": "late_write", "text": text}
        if fill:
            for number, view in enumerate(now):
                view.copy_(self._pattern(view, number))
            if not self._are_filled(now):
                text = "parts of an output are the same memory; return a dense tensor of its own"
                return {"reuses": reuses, "kind": "alias", "text": text}
        return {"reuses": reuses, "kind": "", "text": ""}

    def hold(self) -> None:
        """What was taken last must stay as it is."""
        if self._filled:
            self._held, self._left, self._filled = self._left, [], False

    def held_are_intact(self) -> bool:
        return self._are_filled(self._held)

    def left_are_intact(self) -> bool:
        return not self._filled or self._are_filled(self._left)

    def forget(self) -> None:
        """Once the process has ended: its memory goes back to the device."""
        self._now, self._left, self._held, self._filled = [], [], [], False
        while self._segments:
            address, size, _memory = self._segments.pop()
            del _memory
            self._driver.unmap(address, size)
        self._cell = -1

    def _are_filled(self, views: list[torch.Tensor]) -> bool:
        return all(_same_bits(view, self._pattern(view, number)) for number, view in enumerate(views))

    def _pattern(self, view: torch.Tensor, number: int) -> torch.Tensor:
        """The same for the same shape and number."""
        item = view.element_size()
        count = view.numel() * max(1, item // 8)  # a complex number may take two words
        words = torch.arange(count, dtype=torch.int64, device=view.device)
        mixed = (words + (number * 0x9E3779B1 + self._seed)) * 0x2545F4914F6CDD1D
        mixed ^= mixed >> 29
        if item < 8:
            mixed = mixed.to({1: torch.uint8, 2: torch.int16, 4: torch.int32}[item])
        flat = mixed.view(view.dtype) if view.dtype != torch.bool else (mixed & 1).to(torch.bool)
        return flat.reshape(view.shape)


def _any_meet(tensors: list[torch.Tensor]) -> bool:
    """Whether the memory that two of them reach overlaps: in the order of where they begin, neighbours do."""
    spans = sorted((t.data_ptr(), _end(t)) for t in tensors if t.numel())
    return any(after < end for (_, end), (after, _) in itertools.pairwise(spans))


def _end(t: torch.Tensor) -> int:
    reach = 1 + sum((size - 1) * stride for size, stride in zip(t.shape, t.stride(), strict=True))
    return t.data_ptr() + reach * t.element_size()


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if not a.numel():
        return True
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32}.get(a.element_size(), torch.int64)
    return torch.equal(a.reshape(-1).view(words), b.reshape(-1).view(words))
