"""Slots of cells, with memory of the host in the place of a device's."""

from __future__ import annotations

import os

import pytest
import torch

from kforge_harness import cuda_driver
from kforge_harness.lanes import Lane, SharedSlot, host_slot
from kforge_harness.places import OPEN, Plan

PLAN = Plan(input_bytes=768, output_bytes=256, count=3)


def _lane() -> tuple[Lane, torch.Tensor, torch.Tensor]:
    """A lane, and both slots as its cell sees them."""
    made: list[torch.Tensor] = []

    def slot(nbytes: int) -> SharedSlot:
        opened = host_slot(nbytes)
        made.append(torch.from_file(f"/proc/self/fd/{opened.file}", shared=True, size=nbytes, dtype=torch.uint8))
        return opened

    lane = Lane(PLAN, slot)
    for file in lane.files:
        os.close(file)
    return lane, made[0], made[1]


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
    lane, inputs, outputs = _lane()
    lane.lay([_region(7), _region(8), _region(9)])
    lane.open()
    lane.shut(2)
    assert int(PLAN.gate(inputs)) != OPEN
    assert [int(part.max()) for part in PLAN.inputs(inputs)] == [0, 0, 9]
    assert [int(part.min()) for part in PLAN.outputs(outputs)] == [255, 255, 0]
    lane.lay([_region(3), _region(4)])
    assert int(PLAN.gate(inputs)) != OPEN
    lane.open()
    assert int(PLAN.gate(inputs)) == OPEN
    assert [int(part[0]) for part in PLAN.inputs(inputs)] == [3, 4, 9]


def test_what_changes_after_it_was_taken_is_noticed_in_every_place() -> None:
    lane, inputs, outputs = _lane()
    lane.shut(3)
    lane.lay([_region(1), _region(2), _region(3)])
    for place, part in enumerate(PLAN.outputs(outputs)):
        part.fill_(place)
    assert lane.take(3) and lane.still_there(3)
    assert [int(part[0]) for part in lane.taken] == [0, 1, 2]
    PLAN.outputs(outputs)[2][255] = 77
    assert lane.still_there(2) and not lane.still_there(3)
    assert lane.unchanged([_region(1), _region(2), _region(3)])
    PLAN.inputs(inputs)[1][5] = 99
    assert lane.unchanged([_region(1)]) and not lane.unchanged([_region(1), _region(2)])


def test_the_next_candidate_finds_nothing() -> None:
    lane, inputs, outputs = _lane()
    lane.lay([_region(1)])
    PLAN.outputs(outputs)[0].fill_(5)
    lane.wipe()
    assert int(inputs.max()) == 0 and int(outputs.max()) == 0


def test_a_cell_cannot_take_memory_away_from_the_referee() -> None:
    slot = host_slot(4096)
    with pytest.raises(PermissionError):
        os.ftruncate(slot.file, 0)
    os.close(slot.file)


def test_what_cannot_be_made_whole_is_given_back() -> None:
    released: list[int] = []
    opened: list[int] = []

    def slot(nbytes: int) -> SharedSlot:
        if opened:
            raise cuda_driver.NoMemory("cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY")
        made = host_slot(nbytes)
        opened.append(made.file)
        return SharedSlot(made.file, made.memory, lambda: released.append(made.file))

    with pytest.raises(cuda_driver.NoMemory):
        Lane(PLAN, slot)
    assert released == opened
    with pytest.raises(OSError):
        os.fstat(opened[0])


def test_both_slots_are_released_once_their_cell_has_ended() -> None:
    released: list[int] = []

    def slot(nbytes: int) -> SharedSlot:
        made = host_slot(nbytes)
        return SharedSlot(made.file, made.memory, lambda: released.append(made.file))

    lane = Lane(PLAN, slot)
    lane.release()
    assert released == lane.files
    for file in lane.files:
        os.close(file)
