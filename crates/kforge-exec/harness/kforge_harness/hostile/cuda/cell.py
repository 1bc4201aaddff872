"""The part of a cell that knows the GPU: inputs and results in device memory, and a clock made of device events."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from ...shared.cuda import driver as cuda_driver
from ...shared.slot_layout import INPUT_SLOT, OPEN, Plan
from .. import tuning
from ..outputs import copied
from . import slots as memory
from .segments import Segments

_clock = time.perf_counter_ns  # before any candidate could replace it


class Gpu:
    """Maps the inputs and times calls. What it claims decides nothing: the clock outside is the one that counts."""

    def __init__(self, plan: Plan, input_file: int, staged: bool) -> None:
        self._driver = cuda_driver.load()
        self._slots = memory.of(self._driver, plan, input_file, staged)
        self._segments = Segments(self._driver)
        self.inputs = self._slots.inputs
        self.input_range = self._slots.input_range
        self._start, self._end = self._driver.event(), self._driver.event()
        self._stream = torch.cuda.current_stream().cuda_stream
        self._forget = _working(self._driver.forget_persisting_l2)

    def queue(self, model: Any, arguments: list[list[Any]], results: list[Any], clone: bool) -> int:
        """Launches calls in a row behind the gate, before their inputs are there; nanoseconds that launching took.

        They wait in the device's queue, as in a program that runs ahead of its device, and the clock outside starts
        before there is anything that could be computed.
        """
        self._forget()
        self._driver.wait_for_word(self._slots.gate, OPEN, self._stream)
        self._slots.fetch(len(arguments))
        return self._launch(model, arguments, results, clone)

    def collect(self) -> int:
        """Waits for calls that were queued, on every stream; their nanoseconds on the device together."""
        self._driver.wait(self._end)
        self._driver.wait_for_device()
        return self._driver.elapsed_ns(self._start, self._end)

    def run(self, model: Any, arguments: list[list[Any]], results: list[Any], clone: bool) -> tuple[int, int]:
        """Calls on an idle device: their nanoseconds with all that launching took, and those of launching alone."""
        self._forget()
        self._slots.fetch(len(arguments))
        self.wait()
        launching = self._launch(model, arguments, results, clone)
        return self.collect(), launching

    def _launch(self, model: Any, arguments: list[list[Any]], results: list[Any], clone: bool) -> int:
        low, high = self.input_range

        def wanted(tensor: torch.Tensor) -> bool:
            # What lies elsewhere cannot be read from outside, a CUDA graph's own memory for example.
            return clone or not (low <= tensor.data_ptr() < high or self._segments.holds(tensor))

        launching = 0
        with self._segments.in_use():
            self._driver.record(self._start, self._stream)
            for these in arguments:
                begun = _clock()
                result = model(*these)
                launching += _clock() - begun
                results.append(copied(result, wanted))
            self._driver.record(self._end, self._stream)
        return launching

    def locate(self, address: int) -> tuple[int, int]:
        low, high = self.input_range
        return (INPUT_SLOT, address - low) if low <= address < high else self._segments.locate(address)

    def take_fresh(self) -> list[tuple[int, int]]:
        return self._segments.take_fresh()

    def empty(self, make: Callable[[], Any]) -> Any:
        """Something made where results lie."""
        with self._segments.in_use():
            return make()

    def fetch(self) -> None:
        self._slots.fetch(1)

    def wait(self) -> None:
        self._driver.wait_for_device()

    def warm_heap(self, nbytes: int) -> None:
        """The pool of the device is no heap of pages that are made when they are touched."""

    def place_threads(self, apart: bool) -> None:
        """No thread computes."""

    def time_as_graph(self, call: Callable[[], Any], replays: int) -> int:
        """Nanoseconds of the same launches replayed as one CUDA graph, one after the other, caches warm."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        graph.replay()
        self._driver.record(self._start, self._stream)
        for _ in range(replays):
            graph.replay()
        self._driver.record(self._end, self._stream)
        self._driver.wait(self._end)
        return self._driver.elapsed_ns(self._start, self._end) // replays


def slots(plan: Plan, input_file: int, spec: dict[str, Any]) -> Gpu:
    return Gpu(plan, input_file, spec["staged"])


def before_compiling() -> None:
    tuning.choose_by_device_time()


def _working(action: Callable[[], None]) -> Callable[[], None]:
    """`action`, or nothing where this device has no such thing."""
    try:
        action()
    except cuda_driver.DriverError:
        return lambda: None
    return action
