"""The part of a cell that knows this machine's processors."""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from ...shared.slot_layout import Plan
from ..outputs import copied

_clock = time.perf_counter_ns  # before any candidate could replace it
_MOST_WARM, _PIECE = 256 << 20, 8 << 20


class Host:
    """Inputs in shared memory, results in this process's own, and the processor's clock."""

    def __init__(self, plan: Plan, input_file: int) -> None:
        mapped = mmap.mmap(input_file, plan.input_size)
        self.inputs: list[memoryview] = plan.inputs(memoryview(mapped))
        base = torch.frombuffer(mapped, dtype=torch.uint8).data_ptr()
        self.input_range = (base, base + plan.input_size)
        self._warm = 0  # bytes that the heap has had at once
        self._cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

    def run(self, model: Any, arguments: list[list[Any]], results: list[Any], clone: bool) -> tuple[int, int]:
        start = _clock()
        for these in arguments:
            result = model(*these)
            results.append(copied(result, _always) if clone else result)
        return _clock() - start, 0

    def locate(self, address: int) -> tuple[int, int]:
        return 1, address

    def take_fresh(self) -> list[tuple[int, int]]:
        return []

    def empty(self, make: Callable[[], Any]) -> Any:
        return make()

    def fetch(self) -> None:
        """Inputs are here."""

    def wait(self) -> None:
        """What was called is done."""

    def warm_heap(self, nbytes: int) -> None:
        """As in a program that has run for a while, and in every arm alike: the first touch of a page takes longer than many
        kernels do, and chance decides when it happens."""
        wanted = min(nbytes, _MOST_WARM)
        if wanted > self._warm:
            # In pieces that the allocator keeps when they are given back.
            pieces = [torch.ones(_PIECE, dtype=torch.uint8) for _ in range(-(-wanted // _PIECE))]
            del pieces
            self._warm = wanted

    def place_threads(self, apart: bool) -> None:
        place_threads(self._cores, apart)


def _always(_tensor: torch.Tensor) -> bool:
    return True


def slots(plan: Plan, input_file: int, _spec: dict[str, Any]) -> Host:
    return Host(plan, input_file)


def before_compiling() -> None:
    """The compiler's own clock is right here."""


def place_threads(cores: list[int], apart: bool) -> None:
    """Holds the calling thread on one core and the pools' threads on the others, or sets them all free again.

    A spinning barrier whose two threads were woken on the same core takes a scheduler tick instead of microseconds.
    """
    if len(cores) < 2:
        return
    caller = threading.get_native_id()
    others = sorted(int(name) for name in os.listdir("/proc/self/task") if int(name) != caller)
    places = {caller: {cores[0]}} | {thread: {cores[1 + i % (len(cores) - 1)]} for i, thread in enumerate(others)}
    for thread, place in places.items():
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, place if apart else set(cores))
