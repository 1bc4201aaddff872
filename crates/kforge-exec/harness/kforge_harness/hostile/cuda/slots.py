"""A cell's inputs on a GPU: memory of the device that the referee shares, or copies of memory of the host."""

from __future__ import annotations

import mmap
from typing import Protocol

import torch

from ...shared.cuda import driver as cuda_driver
from ...shared.cuda import memory
from ...shared.slot_layout import Plan


class Slots(Protocol):
    """Places in device memory that `forward` reads."""

    inputs: list[torch.Tensor]
    input_range: tuple[int, int]
    gate: int

    def fetch(self, count: int) -> None:
        """Launches whatever brings the inputs of the first places here."""


class Shared:
    """The referee sees the same memory: nothing is copied."""

    def __init__(self, driver: cuda_driver.Driver, plan: Plan, file: int) -> None:
        slot = memory.device_bytes(driver.map(file, driver.size_of(plan.input_size)), plan.input_size)
        self.inputs = plan.inputs(slot)
        self.input_range = _range(slot)
        self.gate = plan.gate(slot).data_ptr()

    def fetch(self, count: int) -> None:
        pass


class Staged:
    """Where memory of the device cannot be shared between processes: files of the host, copied in and out."""

    def __init__(self, driver: cuda_driver.Driver, plan: Plan, file: int) -> None:
        host_input, address = _pinned(driver, file, plan.input_size)
        self.gate = address + plan.gate(host_input).data_ptr() - host_input.data_ptr()
        slot = memory.device_bytes(driver.plain_memory(plan.input_size), plan.input_size)
        self.inputs = plan.inputs(slot)
        self.input_range = _range(slot)
        self._host_inputs = plan.inputs(host_input)

    def fetch(self, count: int) -> None:
        for here, there in zip(self.inputs[:count], self._host_inputs, strict=False):
            here.copy_(there, non_blocking=True)


def of(driver: cuda_driver.Driver, plan: Plan, file: int, staged: bool) -> Slots:
    return Staged(driver, plan, file) if staged else Shared(driver, plan, file)


def _pinned(driver: cuda_driver.Driver, file: int, nbytes: int) -> tuple[torch.Tensor, int]:
    """A file of the host that the device can copy from, and its address there."""
    tensor = torch.frombuffer(mmap.mmap(file, nbytes), dtype=torch.uint8)
    return tensor, driver.pin(tensor.data_ptr(), nbytes)


def _range(slot: torch.Tensor) -> tuple[int, int]:
    return slot.data_ptr(), slot.data_ptr() + slot.numel()
