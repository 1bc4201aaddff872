"""The clock by which torch's compiler chooses among kernels on a GPU.

Its own clock contains launching. On a host that launches slowly all kernels take as long as their launches, and the choice
is a matter of luck: on an H200 a mean over columns took 134 us instead of 40 in nine processes of twelve. A baseline that
was unlucky would flatter every candidate, so that here it chooses by the device's time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_ROW = 5  # calls that are launched behind one wait
_LONGEST_S = 0.025  # for all rows of one kernel, unless a single one takes longer
_ROWS = 4
_CYCLES_PER_S = 2e9  # no GPU's clock is much faster, and a slower one waits longer


class NotNow(BaseException):
    """Nothing may be timed. Not an Exception: the compiler would take it for a kernel that does not run, and go on."""


def choose_by_device_time() -> None:
    _replace(_device_ms)


@contextmanager
def refused() -> Iterator[None]:
    """Whatever is timed in here raises NotNow."""

    def refuse(*_args: Any, **_kwargs: Any) -> float:
        raise NotNow

    before = _replace(refuse)
    try:
        yield
    finally:
        _replace(before)


def _replace(clock: Any) -> Any:
    """All of its choices ask this one object; versions that have none choose as they like."""
    try:
        from torch._inductor.runtime import benchmarking
    except ImportError:
        return None
    kind: Any = type(benchmarking.benchmarker)
    before = kind.benchmark_gpu
    kind.benchmark_gpu = clock
    return before


def _device_ms(_benchmarker: Any, call: Any, *_args: Any, return_mode: str = "min", **_kwargs: Any) -> Any:
    """Milliseconds between two events on the device, with cold caches and everything launched before the first begins."""
    cache_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    flush = torch.empty(cache_bytes, dtype=torch.uint8, device="cuda")
    call()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(_ROW):
        flush.zero_()
        call()
    launching_s = time.perf_counter() - begun
    torch.cuda.synchronize()
    row_s = time.perf_counter() - begun
    times: list[float] = []
    for _ in range(max(1, min(_ROWS, int(_LONGEST_S / row_s)))):
        torch.cuda._sleep(int(min(2 * launching_s, _LONGEST_S) * _CYCLES_PER_S))
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(_ROW)]
        for start, end in events:
            flush.zero_()
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        times += [start.elapsed_time(end) for start, end in events]
    return times if return_mode == "all" else min(times)
