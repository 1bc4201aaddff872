"""Slots of cells on a device, seen from the trusted side: inputs are laid there, outputs are taken from there.

Each slot is an allocation of its own, made for nothing else: what is beside it belongs to nobody. It crosses into a cell as
a file descriptor. Where nobody can share memory of the device, a file of the host takes its place.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ...shared import device_context, layout
from ...shared.slot_layout import OPEN, Plan


@dataclass(frozen=True)
class SharedSlot:
    """A file descriptor, the bytes behind it, and how they are given up."""

    file: int
    memory: torch.Tensor
    release: Callable[[], None]


MakeSlot = Callable[[int], SharedSlot]


def host_slot(nbytes: int) -> SharedSlot:
    file = os.memfd_create("kforge-slot", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, nbytes)
    # A cell that made it smaller would end whoever looks at what is gone.
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    # Its mapping ends with the tensor.
    return SharedSlot(file, torch.frombuffer(mmap.mmap(file, nbytes), dtype=torch.uint8), lambda: None)


class Results(Protocol):
    """Results of one cell, taken from where it left or copied them."""

    def learn(self, cell: int, sizes: list[int], files: list[int]) -> None:
        """Pieces of memory that a cell handed over; another cell starts counting again."""

    def views(
        self, fields: list[layout.Field], shares: list[bool], calls: list[list[dict[str, Any]]]
    ) -> list[list[torch.Tensor]]:
        """Of a row, call by call."""

    def stamp(self, fill: bool) -> dict[str, Any]:
        """Looks at what was taken last: whether it is memory of its own, and whether earlier results were left alone."""

    def hold(self) -> None:
        """What was taken last must stay as it is."""

    def held_are_intact(self) -> bool: ...

    def left_are_intact(self) -> bool: ...

    def forget(self) -> None:
        """Once the process has ended."""


MakeResults = Callable[[torch.Tensor, torch.Tensor], Results]  # by the memory of both slots


class SlotPool:
    """Inputs of one cell, and its results where it left them."""

    def __init__(self, plan: Plan, make_slot: MakeSlot, make_results: MakeResults, copies: bool) -> None:
        first = make_slot(plan.input_size)
        try:
            # Where memory of a cell cannot be mapped here, it copies its results to this.
            second = host_slot(plan.count * plan.output_bytes if copies else 1)
        except OSError:
            os.close(first.file)
            first.release()
            raise
        self._slots = (first, second)
        self.files = [slot.file for slot in self._slots]
        self._inputs = plan.inputs(first.memory)
        self._gate = plan.gate(first.memory)
        self.results = make_results(first.memory, second.memory)
        self.wipe()

    def release(self) -> None:
        """Once the process that used it has ended."""
        device_context.wait()
        self.results.forget()
        for slot in self._slots:
            slot.release()

    def shut(self, count: int) -> None:
        """What is launched from now on waits, and finds nothing in the first places until they are laid."""
        self._gate.zero_()
        for place in range(count):
            self._inputs[place].zero_()

    def lay(self, regions: list[torch.Tensor]) -> None:
        for place, region in enumerate(regions):
            self._inputs[place][: region.numel()].copy_(region)

    def open(self) -> None:
        if self._gate.device.type == "cpu":  # a device's own order of work does not hold for memory of the host
            device_context.wait()
        self._gate.fill_(OPEN)

    def unchanged(self, regions: list[torch.Tensor], held: list[tuple[int, int]]) -> bool:
        """Whether inputs are as they were laid, in the bytes that no call may change."""
        return all(
            _same(self._inputs[place][start:end], region[start:end])
            for place, region in enumerate(regions)
            for start, end in held
        )

    def wipe(self) -> None:
        device_context.wait()
        self.results.forget()
        for slot in self._slots:
            slot.memory.zero_()


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bit by bit, since NaN differs from itself."""
    words = a.numel() // 8 * 8
    near = a.to(b.device)
    return torch.equal(near[:words].view(torch.int64), b[:words].view(torch.int64)) and torch.equal(
        near[words:], b[words:]
    )
