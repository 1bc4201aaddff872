"""The part of a cell that knows any device of torch's: inputs come from memory of the host, and the clock is the host's."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from typing import Any

import torch

from ...shared import device_context
from ...shared.slot_layout import INPUT_SLOT, Plan
from ..outputs import copied

_clock = time.perf_counter_ns  # before any candidate could replace it


class TorchSlots:
    """A copy of the inputs on the device. Results are copied to where the referee reads them by who asks for them."""

    def __init__(self, plan: Plan, input_file: int) -> None:
        host = torch.frombuffer(mmap.mmap(input_file, plan.input_size), dtype=torch.uint8)
        here = torch.zeros(plan.input_size, dtype=torch.uint8, device=device_context.device())
        self._host_inputs = plan.inputs(host)
        self.inputs: list[Any] = plan.inputs(here)
        self.input_range = (here.data_ptr(), here.data_ptr() + here.numel())

    def run(self, model: Any, arguments: list[list[Any]], results: list[Any], clone: bool) -> tuple[int, int]:
        self._fetch(len(arguments))
        self.wait()
        start = _clock()
        for these in arguments:
            result = model(*these)
            results.append(copied(result, _always) if clone else result)
        launching = _clock() - start
        self.wait()
        took = _clock() - start
        # The referee sees no memory of the device: whether an input was written to, it sees here.
        for here, there in zip(self.inputs[: len(arguments)], self._host_inputs, strict=False):
            there.copy_(here)
        return took, launching

    def locate(self, address: int) -> tuple[int, int]:
        low, high = self.input_range
        return (INPUT_SLOT, address - low) if low <= address < high else (0, 0)

    def take_fresh(self) -> list[tuple[int, int]]:
        return []

    def empty(self, make: Callable[[], Any]) -> Any:
        return make()

    def fetch(self) -> None:
        self._fetch(1)

    def _fetch(self, count: int) -> None:
        for here, there in zip(self.inputs[:count], self._host_inputs, strict=False):
            here.copy_(there)

    def wait(self) -> None:
        device_context.wait()

    def warm_heap(self, nbytes: int) -> None:
        """What torch keeps of a device's memory is not touched page by page."""

    def place_threads(self, apart: bool) -> None:
        """No thread computes."""


def _always(_tensor: torch.Tensor) -> bool:
    return True


def slots(plan: Plan, input_file: int, _spec: dict[str, Any]) -> TorchSlots:
    return TorchSlots(plan, input_file)


def before_compiling() -> None:
    """Nobody has looked into how the compiler times kernels on this device."""
