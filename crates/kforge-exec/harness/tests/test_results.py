"""Results that are read where a cell left them, with memory of the host in the place of a device's."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kforge_harness.shared import layout
from kforge_harness.shared.cuda import memory
from kforge_harness.shared.slot_layout import INPUT_SLOT
from kforge_harness.trusted.cuda.results import Results
from kforge_harness.trusted.torch_device.results import Unreadable

PIECE = 4096
CELL = 5


class Driver:
    """Maps files of the host: one that is mapped twice is the same memory under two addresses, as on a device."""

    def __init__(self) -> None:
        self.mapped: dict[int, torch.Tensor] = {}
        self.unmapped: list[int] = []

    def map(self, file: int, size: int) -> int:
        memory = torch.frombuffer(mmap.mmap(file, size), dtype=torch.uint8)
        self.mapped[memory.data_ptr()] = memory
        return memory.data_ptr()

    def unmap(self, address: int, _size: int) -> None:
        self.unmapped.append(address)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()

    def device_bytes(address: int, nbytes: int) -> torch.Tensor:
        return made.mapped[address][:nbytes]

    monkeypatch.setattr(memory, "device_bytes", device_bytes)
    return made


def _files(count: int) -> list[int]:
    files = [os.memfd_create("piece") for _ in range(count)]
    for file in files:
        os.ftruncate(file, PIECE)
    return files


def _results(driver: Any, pieces: int = 2, copies: int = 1) -> Results:
    inputs, copied = torch.zeros(1024, dtype=torch.uint8), torch.zeros(copies, dtype=torch.uint8)
    made = Results(driver, inputs, copied)
    made.learn(CELL, [PIECE] * pieces, _files(pieces))
    return made


@pytest.fixture
def results(driver: Driver) -> Iterator[Results]:
    made = _results(driver)
    yield made
    made.forget()


def _field(*shape: int, dtype: torch.dtype = torch.float32) -> layout.Field:
    (made,), _size = layout.plan([torch.zeros(shape, dtype=dtype)])
    return made


def _claim(segment: int, at: int, *strides: int) -> dict[str, Any]:
    return {"segment": segment, "at": at, "strides": list(strides)}


ROW = _field(8)


def _taken(results: Results, *claims: dict[str, Any]) -> list[torch.Tensor]:
    """Views of calls that return one row each."""
    return [call[0] for call in results.views([ROW], [False], [[claim] for claim in claims])]


def _pieces(driver: Driver) -> list[torch.Tensor]:
    return [memory.view(torch.float32) for memory in driver.mapped.values()]


def test_results_are_seen_where_they_lie(driver: Driver, results: Results) -> None:
    first, second = _pieces(driver)
    first[:8] = torch.arange(8.0)
    second.copy_(torch.arange(1024.0))
    assert [view.tolist() for view in _taken(results, _claim(1, 0, 1))] == [first[:8].tolist()]
    ((square,),) = results.views([_field(2, 3)], [False], [[_claim(2, 16, 1, 10)]])
    assert square.tolist() == [[4, 14, 24], [5, 15, 25]]
    second[4] = 77
    assert square[0, 0] == 77, "a view is no copy"


def test_a_result_may_be_nothing_or_lie_among_the_inputs(results: Results) -> None:
    ((nothing,),) = results.views([_field(0, 4)], [False], [[_claim(99, 1 << 40, 4, 1)]])
    assert nothing.shape == (0, 4)
    (view,) = _taken(results, _claim(INPUT_SLOT, 32, 1))
    assert view.tolist() == [0] * 8


def test_copies_are_read_only_where_there_are_some(driver: Driver) -> None:
    with pytest.raises(Unreadable):
        _taken(_results(driver), _claim(0, 0, 1))
    assert len(_taken(_results(driver, copies=256), _claim(0, 0, 1))) == 1


def test_copies_of_one_result_after_the_other_are_no_reuse(driver: Driver) -> None:
    results = _results(driver, copies=256)
    for _ in range(3):
        (copy,) = _taken(results, _claim(0, 0, 1))
        copy.fill_(7)
        assert results.stamp(True) == {"reuses": False, "kind": "", "text": ""}
        assert copy.tolist() == [7] * 8, "nothing is written to it"


@pytest.mark.parametrize(
    "claim",
    [_claim(3, 0, 1), _claim(0, 0, 1), _claim(1 << 40, 0, 1), _claim(INPUT_SLOT + 1, 0, 1)],
    ids=["not_handed_over", "no_copies", "huge", "beside_the_inputs"],
)
def test_memory_that_nobody_handed_over_is_not_read(results: Results, claim: dict[str, Any]) -> None:
    with pytest.raises(Unreadable, match="only its own process can see"):
        _taken(results, claim)


@pytest.mark.parametrize(
    "claim",
    [_claim(1, PIECE - 31, 1), _claim(1, PIECE, 1), _claim(1, 2, 1), _claim(1, 0, 147), _claim(2, 0, 1 << 50)],
    ids=["over_the_end", "behind_it", "unaligned", "strided_out", "far_out"],
)
def test_what_reaches_beyond_its_memory_is_not_read(results: Results, claim: dict[str, Any]) -> None:
    with pytest.raises(Unreadable, match="beyond its memory"):
        _taken(results, claim)
    assert len(_taken(results, _claim(1, PIECE - 32, 1), _claim(1, 0, 146))) == 2


def test_a_cell_that_hands_over_too_much_or_nothing_is_told_so(driver: Driver, results: Results) -> None:
    for sizes, word in (([PIECE] * 255, "more pieces"), ([0], "no size"), ([1 << 50], "no size")):
        files = _files(len(sizes))
        with pytest.raises(Unreadable, match=word):
            results.learn(CELL, sizes, files)
        for file in files:
            with pytest.raises(OSError):
                os.fstat(file)


def test_another_cell_starts_counting_again(driver: Driver, results: Results) -> None:
    before = list(driver.mapped)
    results.learn(CELL + 1, [PIECE], _files(1))
    assert sorted(driver.unmapped) == sorted(before)
    assert len(_taken(results, _claim(1, 0, 1))) == 1
    with pytest.raises(Unreadable):
        _taken(results, _claim(2, 0, 1))


def test_memory_of_its_own_for_each_result_is_no_reuse(results: Results) -> None:
    for at in (0, 64, 128):
        _taken(results, _claim(1, at, 1), _claim(2, at, 1))
        assert results.stamp(fill=True) == {"reuses": False, "kind": "", "text": ""}


@pytest.mark.parametrize("at", [0, 28, 4], ids=["same", "last_element", "shifted"])
def test_memory_that_is_used_again_within_a_row_is_seen(results: Results, at: int) -> None:
    _taken(results, _claim(1, 0, 1), _claim(1, at, 1))
    assert results.stamp(fill=False)["reuses"]
    _taken(results, _claim(1, 0, 1), _claim(1, at, 1))
    found = results.stamp(fill=True)
    assert found["kind"] == "alias" and "overwrites an earlier result" in found["text"]


def test_memory_of_the_results_before_is_not_used_again_either(results: Results) -> None:
    _taken(results, _claim(1, 0, 1), _claim(1, 32, 1))
    assert not results.stamp(fill=False)["reuses"]
    _taken(results, _claim(2, 0, 1), _claim(1, 32, 1))
    assert results.stamp(fill=False) == {"reuses": True, "kind": "", "text": ""}
    _taken(results, _claim(1, 512, 1))
    assert not results.stamp(fill=True)["reuses"]
    _taken(results, _claim(1, 512, 1))
    assert results.stamp(fill=True)["kind"] == "alias"


def test_what_the_reference_shares_may_be_shared(results: Results) -> None:
    for _ in range(2):
        results.views([ROW, ROW], [True, True], [[_claim(1, 0, 1), _claim(1, 0, 1)]])
        assert results.stamp(fill=True) == {"reuses": False, "kind": "", "text": ""}


def test_a_filled_result_holds_nothing_of_use_and_no_two_words_alike(driver: Driver, results: Results) -> None:
    first, _second = _pieces(driver)
    first[:16] = torch.arange(16.0)
    _taken(results, _claim(1, 0, 1), _claim(1, 32, 1))
    results.stamp(fill=True)
    words = first[:16].view(torch.int32).tolist()
    assert len(set(words)) == 16 and not set(words) & set(torch.arange(16.0).view(torch.int32).tolist())


def test_a_write_to_a_result_that_was_handed_over_is_found(driver: Driver, results: Results) -> None:
    first, _second = _pieces(driver)
    _taken(results, _claim(1, 0, 1))
    results.stamp(fill=True)
    assert results.left_are_intact()
    first[7] = 1.0
    assert not results.left_are_intact()
    _taken(results, _claim(2, 0, 1))
    found = results.stamp(fill=True)
    assert found["kind"] == "late_write" and "after it had been handed over" in found["text"]


def test_results_that_were_never_filled_may_change(driver: Driver, results: Results) -> None:
    first, _second = _pieces(driver)
    _taken(results, _claim(1, 0, 1))
    results.stamp(fill=False)
    first[0] = 1.0
    assert results.left_are_intact()
    _taken(results, _claim(2, 0, 1))
    assert results.stamp(fill=True)["kind"] == ""


def test_the_same_memory_handed_over_twice_is_found_by_its_pattern(driver: Driver) -> None:
    """Under two addresses: nothing but what is written there tells that they are one."""
    results = _results(driver, pieces=0)
    (file,) = _files(1)
    results.learn(CELL, [PIECE, PIECE], [file, os.dup(file)])
    one, other = _taken(results, _claim(1, 0, 1), _claim(2, 0, 1))
    assert abs(one.data_ptr() - other.data_ptr()) >= PIECE
    assert results.stamp(fill=False) == {"reuses": False, "kind": "", "text": ""}
    _taken(results, _claim(1, 0, 1), _claim(2, 0, 1))
    _taken(results, _claim(1, 64, 1), _claim(2, 64, 1))
    found = results.stamp(fill=True)
    assert found["kind"] == "alias" and "parts of an output are the same memory" in found["text"]


def test_elements_that_share_memory_are_found_by_the_pattern(results: Results) -> None:
    results.views([_field(4, 4)], [False], [[_claim(1, 0, 3, 1)]])
    found = results.stamp(fill=True)
    assert found["kind"] == "alias" and "parts of an output are the same memory" in found["text"]


def test_held_results_stay_until_somebody_writes_there(driver: Driver, results: Results) -> None:
    first, _second = _pieces(driver)
    _taken(results, _claim(1, 0, 1), _claim(1, 64, 1))
    results.stamp(fill=True)
    results.hold()
    for at in (0, 64):
        _taken(results, _claim(2, at, 1))
        assert results.stamp(fill=True)["kind"] == ""
    assert results.held_are_intact()
    first[16] = 0.0
    assert not results.held_are_intact()


def test_what_was_not_filled_cannot_be_held(driver: Driver, results: Results) -> None:
    first, _second = _pieces(driver)
    _taken(results, _claim(1, 0, 1))
    results.stamp(fill=False)
    results.hold()
    first[0] = 1.0
    assert results.held_are_intact()


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.uint8, torch.float8_e4m3fn, torch.bfloat16, torch.float64, torch.complex64, torch.complex128],
    ids=str,
)
def test_every_dtype_has_a_pattern(driver: Driver, dtype: torch.dtype) -> None:
    for shape, strides in (((6, 5), (5, 1)), ((6, 5), (1, 8)), ((), ())):
        driver.mapped.clear()
        results = _results(driver, pieces=1)
        (memory,) = driver.mapped.values()
        results.views([_field(*shape, dtype=dtype)], [False], [[_claim(1, 0, *strides)]])
        assert results.stamp(fill=True)["kind"] == "", shape
        assert results.left_are_intact()
        memory[0] ^= 1
        assert not results.left_are_intact(), shape


def test_forgotten_memory_goes_back(driver: Driver, results: Results) -> None:
    _taken(results, _claim(1, 0, 1))
    results.forget()
    assert sorted(driver.unmapped) == sorted(driver.mapped)
    assert results.held_are_intact() and results.left_are_intact()
