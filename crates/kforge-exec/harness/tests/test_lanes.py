"""Slots of cells, with memory of the host in the place of a device's."""

from __future__ import annotations

import os

import pytest
import torch

from kforge_harness import cuda_driver
from kforge_harness.lanes import Digest, Lane, MakeSlot, SharedSlot, host_slot
from kforge_harness.places import OPEN, Plan

PLAN = Plan(input_bytes=768, output_bytes=256, count=3)


def _taken() -> list[torch.Tensor]:
    return PLAN.outputs(torch.zeros(PLAN.output_size, dtype=torch.uint8))


def _new(slot: MakeSlot, taken: list[torch.Tensor] | None = None) -> Lane:
    return Lane(PLAN, slot, taken or _taken(), Digest())


def _lane(taken: list[torch.Tensor] | None = None) -> tuple[Lane, torch.Tensor, torch.Tensor]:
    """A lane, and both slots as its cell sees them."""
    made: list[torch.Tensor] = []

    def slot(nbytes: int) -> SharedSlot:
        opened = host_slot(nbytes)
        made.append(torch.from_file(f"/proc/self/fd/{opened.file}", shared=True, size=nbytes, dtype=torch.uint8))
        return opened

    lane = _new(slot, taken)
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
    taken = _taken()
    lane, inputs, outputs = _lane(taken)
    lane.shut(3)
    lane.lay([_region(1), _region(2), _region(3)])
    for place, part in enumerate(PLAN.outputs(outputs)):
        part.fill_(place)
    assert lane.take(3) and lane.still_there(3)
    assert [int(part[0]) for part in taken] == [0, 1, 2]
    PLAN.outputs(outputs)[2][255] = 77
    assert lane.still_there(2) and not lane.still_there(3)
    assert lane.unchanged([_region(1), _region(2), _region(3)])
    PLAN.inputs(inputs)[1][5] = 99
    assert lane.unchanged([_region(1)]) and not lane.unchanged([_region(1), _region(2)])


def test_what_changes_is_noticed_after_another_lane_has_handed_over() -> None:
    taken = _taken()
    lane, _inputs, outputs = _lane(taken)
    other, _inputs, others = _lane(taken)
    PLAN.outputs(outputs)[0].fill_(1)
    assert lane.take(1)
    PLAN.outputs(others)[0].fill_(2)
    assert other.take(1) and int(taken[0][0]) == 2
    assert lane.still_there(1) and other.still_there(1)
    PLAN.outputs(outputs)[0].fill_(2)
    assert not lane.still_there(1) and other.still_there(1)


def test_no_change_of_bytes_keeps_a_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Digest, "_WORDS", 16)
    digest = Digest()
    values = torch.randn(256)
    region = values.view(torch.uint8)
    before = digest(region)
    assert digest(region.clone()) == before and Digest()(region) != before
    # Signs are the highest bits of their words, which a product with another number may lose.
    for places in ([3], [1, 3], [3, 19], [0, 1, 2, 3], list(range(256))):
        changed = values.clone()
        changed[places] *= -1
        assert digest(changed.view(torch.uint8)) != before, places
    assert digest(values.roll(16).view(torch.uint8)) != before
    assert digest(values.view(2, 128).flip(0).reshape(-1).view(torch.uint8)) != before


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
        _new(slot)
    assert released == opened
    with pytest.raises(OSError):
        os.fstat(opened[0])


def test_both_slots_are_released_once_their_cell_has_ended() -> None:
    released: list[int] = []

    def slot(nbytes: int) -> SharedSlot:
        made = host_slot(nbytes)
        return SharedSlot(made.file, made.memory, lambda: released.append(made.file))

    lane = _new(slot)
    lane.release()
    assert released == lane.files
    for file in lane.files:
        os.close(file)
