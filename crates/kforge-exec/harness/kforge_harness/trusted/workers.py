"""Threads that OpenMP keeps for the next piece of work: they spin for milliseconds before they sleep, on processors that
somebody else is timed on."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

_SOFT = 1  # of omp_pause_resource_t: what was set stays, the threads go


@functools.cache
def _pauses() -> list[Callable[[int], int]]:
    """Of every OpenMP library in this process that can do so."""
    found: list[Callable[[int], int]] = []
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            paths = {line.split(maxsplit=5)[5].strip() for line in maps if line.count(" ") > 4 and "omp" in line}
    except OSError:
        return []
    for path in sorted(paths):
        if ".so" in path and any(word in path for word in ("libgomp", "libomp", "libiomp")):
            try:
                found.append(ctypes.CDLL(path).omp_pause_resource_all)
            except (OSError, AttributeError):
                continue
    return found


def dismiss() -> None:
    """They come back by themselves with the next piece of work."""
    for pause in _pauses():
        pause(_SOFT)
