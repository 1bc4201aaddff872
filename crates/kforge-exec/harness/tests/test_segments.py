"""Pieces of memory that torch's allocator asks a cell for: found by address, numbered once, handed over once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from kforge_harness.hostile.cuda.segments import Segments
from kforge_harness.shared.cuda import driver as cuda_driver

GRAIN = 4096


class Driver:
    """Hands out addresses one after the other, with a hole behind each."""

    def __init__(self) -> None:
        self.next = 1 << 20
        self.unmapped: list[tuple[int, int]] = []
        self.full = self.unmappable = False
        self.files: list[int] = []

    def allocate(self, nbytes: int) -> tuple[int, int]:
        if self.full:
            raise cuda_driver.NoMemory("cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY")
        self.files.append(os.open(os.devnull, os.O_RDONLY))
        return self.files[-1], -(-nbytes // GRAIN) * GRAIN

    def map(self, _file: int, size: int) -> int:
        if self.unmappable:
            raise cuda_driver.DriverError("cuMemMap: CUDA_ERROR_INVALID_VALUE")
        start = self.next
        self.next += size + GRAIN
        return start

    def unmap(self, address: int, size: int) -> None:
        self.unmapped.append((address, size))


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def segments(driver: Any, monkeypatch: pytest.MonkeyPatch) -> Segments:
    monkeypatch.setattr(torch._C, "_cuda_customAllocator", lambda allocate, free: (allocate, free), raising=False)
    monkeypatch.setattr(torch.cuda, "MemPool", lambda allocator: ("pool", allocator))
    made = Segments(driver)
    assert all(isinstance(address, int) and address for address in made._allocator)
    return made


def _new(segments: Segments, nbytes: int) -> int:
    start = segments._allocate(nbytes, 0, 0)
    assert start is not None
    return start


def test_an_address_is_found_in_its_piece(segments: Segments) -> None:
    first, second = _new(segments, 100), _new(segments, 3 * GRAIN)
    assert segments.locate(second + 2 * GRAIN) == (1, 2 * GRAIN), "numbers follow what is told, not what is there"
    assert segments.locate(first) == (2, 0)
    assert segments.locate(first + GRAIN - 1) == (2, GRAIN - 1)
    assert segments.locate(second + 3 * GRAIN - 1) == (1, 3 * GRAIN - 1)


def test_what_lies_in_no_piece_has_no_number(segments: Segments) -> None:
    assert segments.locate(1) == (0, 0)
    start = _new(segments, 100)
    for address in (start - 1, start + GRAIN, start + 2 * GRAIN, 1 << 60):
        assert segments.locate(address) == (0, 0), address
    assert segments.take_fresh() == []


def test_a_piece_is_handed_over_once(segments: Segments, driver: Driver) -> None:
    starts = [_new(segments, GRAIN * (n + 1)) for n in range(3)]
    segments.locate(starts[2])
    segments.locate(starts[0] + 8)
    segments.locate(starts[2] + 8)
    assert segments.take_fresh() == [(driver.files[2], 3 * GRAIN), (driver.files[0], GRAIN)]
    segments.locate(starts[0])
    assert segments.take_fresh() == []
    segments.locate(starts[1])
    assert segments.take_fresh() == [(driver.files[1], 2 * GRAIN)]


def test_a_piece_that_is_freed_is_gone_and_its_number_is_not_given_again(segments: Segments, driver: Driver) -> None:
    first = _new(segments, GRAIN)
    assert segments.locate(first) == (1, 0)
    segments.take_fresh()
    segments._free(first, GRAIN, 0, 0)
    assert driver.unmapped == [(first, GRAIN)] and segments.locate(first) == (0, 0)
    with pytest.raises(OSError):
        os.fstat(driver.files[0])
    driver.next = first
    assert _new(segments, GRAIN) == first
    assert segments.locate(first) == (2, 0) and len(segments.take_fresh()) == 1


def test_freeing_what_nobody_has_does_nothing(segments: Segments, driver: Driver) -> None:
    segments._free(None, 0, 0, 0)
    segments._free(12345, GRAIN, 0, 0)
    assert driver.unmapped == []


def test_without_memory_torch_is_told_so(segments: Segments, driver: Driver) -> None:
    driver.full = True
    assert segments._allocate(GRAIN, 0, 0) is None
    driver.full, driver.unmappable = False, True
    assert segments._allocate(GRAIN, 0, 0) is None
    with pytest.raises(OSError):
        os.fstat(driver.files[0])


def test_a_tensor_is_held_by_the_piece_that_it_lies_in(segments: Segments, driver: Driver) -> None:
    inside, elsewhere = torch.zeros(16), torch.zeros(16)
    driver.next = inside.data_ptr()
    segments._allocate(64, 0, 0)
    assert segments.holds(inside) and segments.holds(torch.empty(0))
    assert segments.holds(elsewhere) == (0 <= elsewhere.data_ptr() - inside.data_ptr() < GRAIN)
    assert not segments.holds(torch.zeros(1 << 20))


def test_the_pool_is_in_use_only_where_it_is_wanted(segments: Segments, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Any] = []

    @contextmanager
    def use(pool: Any) -> Iterator[None]:
        used.append(pool)
        yield
        used.append("done")

    monkeypatch.setattr(torch.cuda, "use_mem_pool", use)
    with segments.in_use():
        assert used == [segments._pool]
    assert used == [segments._pool, "done"]
