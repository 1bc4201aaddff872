"""Slots of cells, with memory of the host in the place of a device's."""

from __future__ import annotations

import os

import pytest
import torch

from kforge_harness.shared.cuda import driver as cuda_driver
from kforge_harness.shared.slot_layout import OPEN, Plan
from kforge_harness.trusted.torch_device import slot_pool
from kforge_harness.trusted.torch_device.results import Copies
from kforge_harness.trusted.torch_device.slot_pool import MakeSlot, SharedSlot, SlotPool, host_slot

PLAN = Plan(input_bytes=768, output_bytes=256, count=3)


def _new(slot: MakeSlot, copies: bool = False) -> SlotPool:
    return SlotPool(PLAN, slot, Copies, copies)


def _pool() -> tuple[SlotPool, torch.Tensor]:
    """A slot pool, and its inputs as the cell sees them."""
    made: list[torch.Tensor] = []

    def slot(nbytes: int) -> SharedSlot:
        opened = host_slot(nbytes)
        made.append(torch.from_file(f"/proc/self/fd/{opened.file}", shared=True, size=nbytes, dtype=torch.uint8))
        return opened

    pool = _new(slot)
    for file in pool.files:
        os.close(file)
    return pool, made[0]


def _region(value: int) -> torch.Tensor:
    return torch.full((768,), value, dtype=torch.uint8)


def test_places_lie_apart_and_the_gate_behind_them() -> None:
    slot = torch.arange(PLAN.input_size) % 251
    parts = PLAN.inputs(slot.to(torch.uint8))
    starts = [part.data_ptr() - parts[0].data_ptr() for part in parts]
    assert starts == [0, 1024, 2048] and all(start % 512 == 0 for start in starts)
    gate = PLAN.gate(slot.to(torch.uint8))
    assert gate.dtype == torch.int32 and gate.numel() == 1
    assert PLAN.input_size >= 2048 + 768 + 4


def test_nothing_is_there_before_the_gate_opens() -> None:
    pool, inputs = _pool()
    pool.lay([_region(7), _region(8), _region(9)])
    pool.open()
    pool.shut(2)
    assert int(PLAN.gate(inputs)) != OPEN
    assert [int(part.max()) for part in PLAN.inputs(inputs)] == [0, 0, 9]
    pool.lay([_region(3), _region(4)])
    assert int(PLAN.gate(inputs)) != OPEN
    pool.open()
    assert int(PLAN.gate(inputs)) == OPEN
    assert [int(part[0]) for part in PLAN.inputs(inputs)] == [3, 4, 9]


def test_inputs_that_a_call_changed_are_noticed_in_every_place() -> None:
    pool, inputs = _pool()
    regions, whole = [_region(1), _region(2)], [(0, 768)]
    pool.lay(regions)
    assert pool.unchanged(regions, whole)
    PLAN.inputs(inputs)[1][5] = 99
    assert pool.unchanged(regions[:1], whole) and not pool.unchanged(regions, whole)
    # Of what the reference writes too only the rest is looked at.
    assert pool.unchanged(regions, [(256, 768)]) and pool.unchanged(regions, [])
    PLAN.inputs(inputs)[1][512] = 99
    assert not pool.unchanged(regions, [(256, 768)])


def test_inputs_that_are_no_numbers_are_compared_bit_by_bit() -> None:
    pool, inputs = _pool()
    region = torch.full((192,), torch.nan).view(torch.uint8)
    pool.lay([region])
    assert pool.unchanged([region], [(0, 768)])
    PLAN.inputs(inputs)[0][0] = 1
    assert not pool.unchanged([region], [(0, 768)]) and pool.unchanged([region], [(256, 768)])


def test_the_next_candidate_finds_nothing() -> None:
    pool, inputs = _pool()
    pool.lay([_region(1)])
    pool.open()
    pool.wipe()
    assert int(inputs.max()) == 0


@pytest.mark.parametrize("copies", [False, True])
def test_only_where_results_are_copied_there_is_room_for_copies(copies: bool) -> None:
    pool = _new(host_slot, copies)
    assert os.fstat(pool.files[1]).st_size == (3 * 256 if copies else 1)
    for file in pool.files:
        os.close(file)


def test_a_cell_cannot_take_memory_away_from_the_referee() -> None:
    slot = host_slot(4096)
    with pytest.raises(PermissionError):
        os.ftruncate(slot.file, 0)
    os.close(slot.file)


def test_what_cannot_be_made_at_all_is_told() -> None:
    def slot(_nbytes: int) -> SharedSlot:
        raise cuda_driver.NoMemory("cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY")

    with pytest.raises(cuda_driver.NoMemory):
        _new(slot)


def test_what_cannot_be_made_whole_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[int] = []
    opened: list[int] = []
    own = host_slot

    def slot(nbytes: int) -> SharedSlot:
        made = own(nbytes)
        opened.append(made.file)
        return SharedSlot(made.file, made.memory, lambda: released.append(made.file))

    def full(_nbytes: int) -> SharedSlot:
        raise OSError("no memory")

    monkeypatch.setattr(slot_pool, "host_slot", full)
    with pytest.raises(OSError, match="no memory"):
        _new(slot)
    assert released == opened
    with pytest.raises(OSError):
        os.fstat(opened[0])


def test_its_slot_is_released_once_its_cell_has_ended() -> None:
    released: list[int] = []

    def slot(nbytes: int) -> SharedSlot:
        made = host_slot(nbytes)
        return SharedSlot(made.file, made.memory, lambda: released.append(made.file))

    pool = _new(slot)
    pool.release()
    assert released == pool.files[:1]
    for file in pool.files:
        os.close(file)
