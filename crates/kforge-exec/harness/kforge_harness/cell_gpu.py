"""The part of a cell that knows the GPU: slots in device memory, and a clock made of device events."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from . import cuda_driver, slots_gpu
from .failure import Failure
from .places import OPEN, Plan

_clock = time.perf_counter_ns  # before any candidate could replace it

_BUSY_NS = 50_000
_BUSY_SHARE = 0.1


class Gpu:
    """Maps both slots and times calls. What it claims is held against the clock outside, like every inside time."""

    def __init__(self, plan: Plan, files: tuple[int, int], staged: bool) -> None:
        self._driver = cuda_driver.load()
        self._slots = slots_gpu.of(self._driver, plan, files, staged)
        self.inputs, self.outputs = self._slots.inputs, self._slots.outputs
        self.input_range = self._slots.input_range
        self._events = [(self._driver.event(), self._driver.event()) for _ in range(plan.count)]
        self._done = self._driver.event()
        self._stream = torch.cuda.current_stream().cuda_stream
        self._idle_ns = self._idle_wait()
        self._forget = _working(self._driver.forget_persisting_l2)
        self._busy_calls = 0

    def queue(self, model: Any, arguments: list[list[Any]], deliver: Callable[[Any, int], None]) -> int:
        """Launches calls in a row behind the gate, before their inputs are there; nanoseconds that launching took.

        They wait in the device's queue, as in a program that runs ahead of its device, and the clock outside starts
        before there is anything that could be computed.
        """
        self._forget()
        self._driver.wait_for_word(self._slots.gate, OPEN, self._stream)
        self._slots.fetch(len(arguments))
        launching = 0
        for place, (these, (start, end)) in enumerate(zip(arguments, self._events, strict=False)):
            self._driver.record(start, self._stream)
            begun = _clock()
            result = model(*these)
            launching += _clock() - begun
            self._driver.record(end, self._stream)
            deliver(result, place)
            self._slots.store(place)
        self._driver.record(self._done, self._stream)
        return launching

    def collect(self, count: int) -> int:
        """Waits for calls that were queued; their nanoseconds on the device together, with work on other streams."""
        late = self._finish(self._done)
        inside = sum(self._driver.elapsed_ns(*pair) for pair in self._events[:count])
        return inside + self._late_work(late, inside)

    def time(self, model: Any, arguments: list[Any]) -> tuple[Any, int, int]:
        """The result of one call on an idle device, its nanoseconds with all that launching it took, and those alone."""
        self._forget()
        self.wait()
        start, end = self._events[0]
        self._driver.record(start, self._stream)
        begun = _clock()
        result = model(*arguments)
        launching = _clock() - begun
        self._driver.record(end, self._stream)
        late = self._finish(end)
        inside = self._driver.elapsed_ns(start, end)
        return result, inside + self._late_work(late, inside), launching

    def fetch(self) -> None:
        self._slots.fetch(1)

    def handed_over(self) -> None:
        """The result of one call lies in its slot."""
        self._slots.store(0)
        self.wait()

    def wait(self) -> None:
        self._driver.wait_for_device()

    def time_as_graph(self, call: Callable[[], Any], replays: int) -> int:
        """Nanoseconds of the same launches replayed as one CUDA graph, one after the other, caches warm."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        start, end = self._events[0]
        graph.replay()
        self._driver.record(start, self._stream)
        for _ in range(replays):
            graph.replay()
        self._driver.record(end, self._stream)
        self._driver.wait(end)
        return self._driver.elapsed_ns(start, end) // replays

    def _finish(self, end: Any) -> int:
        """Waits for the stream of forward, then for all others; nanoseconds that those took longer."""
        self._driver.wait(end)
        begun = _clock()
        self._driver.wait_for_device()
        return _clock() - begun

    def _late_work(self, waited: int, inside: int) -> int:
        """Work that other streams went on with counts; a candidate that always leaves some is refused."""
        busy = waited > max(_BUSY_NS, _BUSY_SHARE * inside)
        self._busy_calls = self._busy_calls + 1 if busy else 0
        if self._busy_calls > 1:  # twice in a row is no scheduler's whim
            raise Failure(
                "clock",
                f"the device was busy for {waited / 1e3:.0f} us after the stream of forward was done: "
                "join every stream that works for the output, and launch nothing for later",
            )
        return max(0, waited - self._idle_ns)

    def _idle_wait(self) -> int:
        """What waiting takes where there is nothing to wait for."""
        waits = []
        for _ in range(21):
            begun = _clock()
            self._driver.wait_for_device()
            waits.append(_clock() - begun)
        return sorted(waits)[len(waits) // 2]


def _working(action: Callable[[], None]) -> Callable[[], None]:
    """`action`, or nothing where this device has no such thing."""
    try:
        action()
    except cuda_driver.DriverError:
        return lambda: None
    return action
