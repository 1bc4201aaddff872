"""The clock by which torch's compiler chooses among kernels on a GPU.

Its own clock contains launching. On a host that launches slowly all kernels take as long as their launches, and the choice
is a matter of luck: on an H200 a mean over columns took 134 us instead of 40 in nine processes of twelve. A baseline that
was unlucky would flatter every candidate, so that here it chooses by the device's time.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

_ROW = 5  # calls that are launched behind one wait
_LONGEST_S = 0.025  # for all rows of one kernel, unless a single one takes longer
_ROWS = 4
_CYCLES_PER_S = 2e9  # no GPU's clock is much faster, and a slower one waits longer


class NotNow(BaseException):
    """Nothing may be timed. Not an Exception: the compiler would take it for a kernel that does not run, and go on."""


def choose_by_device_time() -> None:
    for kind, name in _clock():
        setattr(kind, name, _device_ms)


@contextmanager
def refused() -> Iterator[None]:
    """Whatever is timed in here raises NotNow, if possible before its inputs are made on the device."""

    def refuse(*_args: Any, **_kwargs: Any) -> float:
        raise NotNow

    with ExitStack() as replaced:
        for owner, name in [*_clock(), *_makers_of_inputs()]:
            replaced.enter_context(mock.patch.object(owner, name, refuse))
        yield


def _clock() -> list[tuple[Any, str]]:
    """All of its choices ask this one object; versions that have none choose as they like."""
    return _found("torch._inductor.runtime.benchmarking", lambda module: type(module.benchmarker), "benchmark_gpu")


def _makers_of_inputs() -> list[tuple[Any, str]]:
    """For products of matrices, whose variants are timed while they are compiled."""
    return _found("torch._inductor.select_algorithm", lambda module: module.AlgorithmSelectorCache, "get_inputs")


def _found(module: str, owner_in: Callable[[Any], Any], name: str) -> list[tuple[Any, str]]:
    try:
        owner = owner_in(importlib.import_module(module))
    except (ImportError, AttributeError):
        return []
    return [(owner, name)] if hasattr(owner, name) else []


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
