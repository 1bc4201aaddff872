"""Slots of cells on a GPU, seen from the trusted side: inputs are laid there, outputs are taken from there.

Each slot is an allocation of its own, made for nothing else: what lies beside it belongs to nobody. It crosses into a
cell as a file descriptor. Where the driver cannot share memory of the device, a file of the host takes its place.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from ...shared import device_context
from ...shared.cuda import driver as cuda_driver
from ...shared.slot_layout import OPEN, Plan
from .results import Results

_SMALLEST_FLUSH = 128 << 20


@dataclass(frozen=True)
class SharedSlot:
    """A file descriptor, the bytes behind it, and how they are given up."""

    file: int
    memory: torch.Tensor
    release: Callable[[], None]


MakeSlot = Callable[[int], SharedSlot]


def device_slot(driver: cuda_driver.Driver, nbytes: int) -> SharedSlot:
    file, size = driver.allocate(nbytes)
    try:
        address = driver.map(file, size)
    except cuda_driver.DriverError:
        os.close(file)  # which would keep the memory
        raise
    return SharedSlot(file, device_context.device_bytes(address, nbytes), partial(driver.unmap, address, size))


def host_slot(nbytes: int) -> SharedSlot:
    file = os.memfd_create("kforge-slot", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, nbytes)
    # A cell that made it smaller would end whoever looks at what is gone.
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    # Its mapping ends with the tensor.
    return SharedSlot(file, torch.frombuffer(mmap.mmap(file, nbytes), dtype=torch.uint8), lambda: None)


class SlotPool:
    """Inputs of one cell, and its results where it left them."""

    def __init__(self, driver: cuda_driver.Driver, plan: Plan, make_slot: MakeSlot, copies: bool) -> None:
        self._driver = driver
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
        self.results = Results(driver, first.memory, second.memory)
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
        if not self._gate.is_cuda:  # the device's own order of work does not hold for memory of the host
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


class Flush:
    """Empties the level-2 cache: twice its size is written and read."""

    def __init__(self, l2_bytes: int) -> None:
        self.nbytes = max(2 * l2_bytes, _SMALLEST_FLUSH)
        self._buffer = torch.zeros(self.nbytes // 8, dtype=torch.int64, device=device_context.device())

    def __call__(self) -> None:
        self._buffer.add_(1)
        self._buffer.sum()


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bit by bit, since NaN differs from itself."""
    words = a.numel() // 8 * 8
    near = a.to(b.device)
    return torch.equal(near[:words].view(torch.int64), b[:words].view(torch.int64)) and torch.equal(
        near[words:], b[words:]
    )
