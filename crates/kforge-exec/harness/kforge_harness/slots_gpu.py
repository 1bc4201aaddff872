"""A cell's slots on a GPU: memory of the device that the referee shares, or copies of memory of the host."""

from __future__ import annotations

import mmap
from typing import Protocol

import torch

from . import cuda_driver, home
from .places import Plan


class Slots(Protocol):
    """Places in device memory that `forward` reads and its results are copied to."""

    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]
    input_range: tuple[int, int]
    gate: int

    def fetch(self, count: int) -> None:
        """Launches whatever brings the inputs of the first places here."""

    def store(self, place: int) -> None:
        """Launches whatever brings the output of one place to where the referee sees it."""


class Shared:
    """The referee sees the same memory: nothing is copied."""

    def __init__(self, driver: cuda_driver.Driver, plan: Plan, files: tuple[int, int]) -> None:
        slot = _mapped(driver, files[0], plan.input_size)
        self.inputs = plan.inputs(slot)
        self.outputs = plan.outputs(_mapped(driver, files[1], plan.output_size))
        self.input_range = _range(slot)
        self.gate = plan.gate(slot).data_ptr()

    def fetch(self, count: int) -> None:
        pass

    def store(self, place: int) -> None:
        pass


class Staged:
    """Where memory of the device cannot be shared between processes: files of the host, copied in and out."""

    def __init__(self, driver: cuda_driver.Driver, plan: Plan, files: tuple[int, int]) -> None:
        host_input, address = _pinned(driver, files[0], plan.input_size)
        host_output, _address = _pinned(driver, files[1], plan.output_size)
        self.gate = address + plan.gate(host_input).data_ptr() - host_input.data_ptr()
        slot = home.device_bytes(driver.plain_memory(plan.input_size), plan.input_size)
        self.inputs = plan.inputs(slot)
        self.outputs = plan.outputs(home.device_bytes(driver.plain_memory(plan.output_size), plan.output_size))
        self.input_range = _range(slot)
        self._host_inputs, self._host_outputs = plan.inputs(host_input), plan.outputs(host_output)

    def fetch(self, count: int) -> None:
        for here, there in zip(self.inputs[:count], self._host_inputs, strict=False):
            here.copy_(there, non_blocking=True)

    def store(self, place: int) -> None:
        self._host_outputs[place].copy_(self.outputs[place], non_blocking=True)


def of(driver: cuda_driver.Driver, plan: Plan, files: tuple[int, int], staged: bool) -> Slots:
    return Staged(driver, plan, files) if staged else Shared(driver, plan, files)


def _mapped(driver: cuda_driver.Driver, file: int, nbytes: int) -> torch.Tensor:
    return home.device_bytes(driver.map(file, driver.size_of(nbytes)), nbytes)


def _pinned(driver: cuda_driver.Driver, file: int, nbytes: int) -> tuple[torch.Tensor, int]:
    """A file of the host that the device can copy from, and its address there."""
    tensor = torch.frombuffer(mmap.mmap(file, nbytes), dtype=torch.uint8)
    return tensor, driver.pin(tensor.data_ptr(), nbytes)


def _range(slot: torch.Tensor) -> tuple[int, int]:
    return slot.data_ptr(), slot.data_ptr() + slot.numel()
