"""A part of a reduction that is left out is seen, whatever its size and place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support import reference_of, simple

from kforge_harness.trusted.compare import compare
from kforge_harness.trusted.sets import OWN, SLICE, Reference


def kinds(reference: Reference, candidate: Callable[..., torch.Tensor]) -> list[str]:
    found = []
    for number in range(4):
        made = reference.ensure(0, SLICE, number)
        inputs = reference.store.read_tensors(f"{made.name}.in", reference.variants[0].input_fields)
        (true,), _sources = reference.truth_of(made)
        found.append(compare(candidate(*inputs), true, made.bands[0], None, "output", "fp32").kind)
    return found


def test_slices_have_several_sizes_and_places(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "x.sum(-1)", "torch.randn(16, 256)"), tmp_path)
    base = reference.draw(0, OWN, 0).tensors[0]
    changed = []
    for number in range(4):
        made = reference.ensure(0, SLICE, number)
        (x,) = reference.store.read_tensors(f"{made.name}.in", reference.variants[0].input_fields)
        changed.append(x != base)
    assert changed[0].any(1).sum() == 1, "one row"
    for number, columns in ((1, 64), (2, 4), (3, 4)):
        assert changed[number].any(0).sum() == columns and changed[number].any(1).all()
    assert changed[2][:, -4:].all() and changed[3][:, 126:130].all()


@pytest.mark.parametrize("draw", ["randn", "rand"])
def test_a_mean_that_is_left_out_moves_what_is_elsewhere(tmp_path: Path, draw: str) -> None:
    reference = reference_of(simple(tmp_path, "x - x.mean()", f"torch.{draw}(1 << 18)"), tmp_path)
    assert kinds(reference, lambda x: x - x.mean()) == [""] * 4
    assert "" not in kinds(reference, lambda x: x.clone())[1:]
    quarter = kinds(reference, lambda x: x - x[: len(x) * 3 // 4].mean())
    assert quarter[2] and quarter[3], "a block that counts too much, or not at all"


def test_products_that_skip_the_end_or_the_middle_are_seen(tmp_path: Path) -> None:
    inputs = "torch.rand(32, 1024), torch.rand(1024, 16)"
    reference = reference_of(simple(tmp_path, "x @ rest[0]", inputs), tmp_path)
    assert kinds(reference, lambda a, b: a @ b) == [""] * 4
    assert "" not in kinds(reference, lambda a, b: a[:, :-1] @ b[:-1])[2:3]
    assert "" not in kinds(
        reference, lambda a, b: torch.cat([a[:, :512], a[:, 513:]], 1) @ torch.cat([b[:512], b[513:]])
    )


def test_what_is_not_used_at_the_end_is_not_all_that_is_tried(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "F.avg_pool1d(x, 11)", "torch.rand(4, 2, 71)"), tmp_path)
    assert kinds(reference, lambda x: torch.nn.functional.avg_pool1d(x, 11)) == [""] * 4
    assert reference.notes == []


def test_slices_move_the_truth_under_a_lower_contract_too(tmp_path: Path) -> None:
    init = "self.linear = nn.Linear(256, 64)"
    problem = simple(tmp_path, "torch.tanh(self.linear(x)).mean(-1)", "torch.rand(64, 256)", init)
    reference = reference_of(problem, tmp_path, {"mul": "bf16"})
    for number in range(4):
        reference.ensure(0, SLICE, number)
    assert reference.notes == []


def test_a_change_that_the_reference_does_not_bear_moves_nothing(tmp_path: Path) -> None:
    problem = simple(tmp_path, "F.binary_cross_entropy(x, rest[0])", "torch.rand(64, 64), torch.rand(64, 64).round()")
    reference = reference_of(problem, tmp_path)
    assert kinds(reference, lambda p, t: torch.nn.functional.binary_cross_entropy(p, t)) == [""] * 4
    assert not reference.unmoved


def test_one_size_of_slices_that_moves_is_enough(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "x.cumprod(-1)", "torch.rand(64, 2048)"), tmp_path)
    kinds(reference, lambda x: x.cumprod(-1))
    reference.slice_moves(3, False)
    assert not reference.unmoved
    for number in range(4):
        reference.slice_moves(number, False)
    assert reference.unmoved


@pytest.mark.parametrize(
    "draw",
    [
        "F.one_hot(torch.randint(0, 16, (64,)), 16)",
        "F.one_hot(torch.randint(0, 16, (64,)), 16).float()",
        "torch.randint(0, 9, (64,)).cumsum(0)",
        "torch.randperm(64)",
    ],
)
def test_structured_inputs_are_exchanged_as_a_whole(tmp_path: Path, draw: str) -> None:
    reference = reference_of(simple(tmp_path, "x * 2", draw), tmp_path)
    assert reference.plan.divisible == [False]
    for number in range(4):
        made = reference.ensure(0, SLICE, number)
        (x,) = reference.store.read_tensors(f"{made.name}.in", reference.variants[0].input_fields)
        assert any(torch.equal(x, reference.draw(0, OWN, other).tensors[0]) for other in range(1000, 1004))
    assert not reference.unmoved


def test_slices_of_sorted_and_symmetric_inputs_stay_so(tmp_path: Path) -> None:
    symmetric = "(lambda a: (a + a.mT) / 2)(torch.randn(32, 32))"
    reference = reference_of(
        simple(tmp_path, "(x @ x, rest[0] * 2)", f"{symmetric}, torch.rand(8, 32).sort(-1).values"), tmp_path
    )
    for number in range(4):
        made = reference.ensure(0, SLICE, number)
        x, y = reference.store.read_tensors(f"{made.name}.in", reference.variants[0].input_fields)
        assert torch.equal(x, x.mT) and bool((y.diff(dim=-1) >= 0).all())
    assert not reference.unmoved
