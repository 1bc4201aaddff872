"""The part of a cell that knows the GPU: slots in device memory, and a clock made of device events."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from . import cuda_driver, home
from .failure import Failure

_clock = time.perf_counter_ns  # before any candidate could replace it

_BUSY_NS = 50_000
_BUSY_SHARE = 0.1


class Gpu:
    """Maps both slots and times calls. What it claims is held against the clock outside, like every inside time."""

    def __init__(self, input_file: int, input_bytes: int, output_file: int, output_bytes: int) -> None:
        self._driver = cuda_driver.load()
        self.inputs = self._mapped(input_file, input_bytes)
        self.outputs = self._mapped(output_file, output_bytes)
        self.input_range = (self.inputs.data_ptr(), self.inputs.data_ptr() + input_bytes)
        self._start, self._end = self._driver.event(), self._driver.event()
        self._stream = torch.cuda.current_stream().cuda_stream
        self._spin = self._driver.spinner(self._stream)
        self._idle_ns = self._idle_wait()
        self._forget = _working(self._driver.forget_persisting_l2)
        self._busy_calls = 0

    def _mapped(self, file: int, nbytes: int) -> torch.Tensor:
        return home.device_bytes(self._driver.map(file, self._driver.size_of(nbytes)), nbytes)

    def time(self, model: Any, arguments: list[Any], ahead_us: int) -> tuple[Any, int, int]:
        """The result of one call, its nanoseconds on the device with work on other streams, and those of launching it.

        The device is kept busy for `ahead_us` first, so that launches wait in its queue as they do in a program that
        runs ahead of it. With 0 the time is that of a call on an idle device, launching included.
        """
        driver = self._driver
        driver.wait_for_device()
        if ahead_us:
            self._spin(1000 * ahead_us)
        driver.record(self._start, self._stream)
        begun = _clock()
        result = model(*arguments)
        launching = _clock() - begun
        driver.record(self._end, self._stream)
        driver.wait(self._end)
        begun = _clock()
        driver.wait_for_device()
        waited = _clock() - begun
        inside = driver.elapsed_ns(self._start, self._end)
        self._forget()
        return result, inside + self._late_work(waited, inside), launching

    def wait(self) -> None:
        self._driver.wait_for_device()

    def time_as_graph(self, call: Callable[[], Any], replays: int) -> int:
        """Median nanoseconds of the same launches replayed as one CUDA graph, caches warm."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        times = []
        for _ in range(replays):
            self._driver.wait_for_device()
            self._spin(20_000)
            self._driver.record(self._start, self._stream)
            graph.replay()
            self._driver.record(self._end, self._stream)
            self._driver.wait(self._end)
            times.append(self._driver.elapsed_ns(self._start, self._end))
        return sorted(times)[len(times) // 2]

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
