"""Memory of a cell on a GPU that another process can map: whatever torch allocates during `forward` lies here.

The trusted side reads results where they lie, so that nobody copies them and nobody can be spared the copy. Each piece that
torch's allocator asks for is an allocation of its own by the driver's virtual memory management; those that hold a result
are handed over as file descriptors, once.
"""

from __future__ import annotations

import bisect
import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ...shared.cuda import driver as cuda_driver

_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)


class Segments:
    """The pool of one process, and which of its pieces the trusted side knows by number."""

    def __init__(self, driver: cuda_driver.Driver) -> None:
        self._driver = driver
        self._starts: list[int] = []
        self._pieces: dict[int, tuple[int, int]] = {}  # start: file, size
        self._numbers: dict[int, int] = {}
        self._next = 1
        self._fresh: list[tuple[int, int]] = []  # file, size
        # Both must live as long as the pool: torch keeps their addresses.
        self._callbacks = (_ALLOCATE(self._allocate), _FREE(self._free))
        allocate, free = (ctypes.cast(callback, ctypes.c_void_p).value or 0 for callback in self._callbacks)
        self._allocator = torch._C._cuda_customAllocator(allocate, free)
        self._pool = torch.cuda.MemPool(self._allocator)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        with torch.cuda.use_mem_pool(self._pool):
            yield

    def holds(self, tensor: torch.Tensor) -> bool:
        return not tensor.numel() or self._start_of(tensor.data_ptr()) is not None

    def locate(self, address: int) -> tuple[int, int]:
        """The number of the piece that an address lies in, and the offset; 0 for nothing."""
        start = self._start_of(address)
        if start is None:
            return 0, 0
        if start not in self._numbers:
            self._numbers[start] = self._next
            self._next += 1
            self._fresh.append(self._pieces[start])
        return self._numbers[start], address - start

    def take_fresh(self) -> list[tuple[int, int]]:
        """Files and sizes of the pieces that were numbered since the last time, in the order of their numbers."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def _start_of(self, address: int) -> int | None:
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        start = self._starts[at]
        return start if address < start + self._pieces[start][1] else None

    def _allocate(self, nbytes: int, _device: int, _stream: int) -> int | None:
        try:
            file, size = self._driver.allocate(nbytes)
        except cuda_driver.DriverError:
            return None  # torch says that memory is out
        try:
            start = self._driver.map(file, size)
        except cuda_driver.DriverError:
            os.close(file)
            return None
        self._pieces[start] = (file, size)
        bisect.insort(self._starts, start)
        return start

    def _free(self, start: int | None, _nbytes: int, _device: int, _stream: int) -> None:
        if start is None or start not in self._pieces:
            return
        file, size = self._pieces.pop(start)
        self._starts.remove(start)
        self._numbers.pop(start, None)
        self._driver.unmap(start, size)
        os.close(file)
