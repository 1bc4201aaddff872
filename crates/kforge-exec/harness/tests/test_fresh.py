"""Inputs of timed calls: new ones for every call, each result held against a truth or against the baseline's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support import reference_of, simple

from kforge_harness.trusted.draw import OWN
from kforge_harness.trusted.fresh import _BESIDE_BASELINE, FreshRows
from kforge_harness.trusted.problem import Drawn
from kforge_harness.trusted.sets import Reference

Results = list[list[torch.Tensor]]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    folder = tmp_path_factory.mktemp("fresh")
    return reference_of(simple(folder, "torch.softmax(x, -1) * x"), folder)


def _right(drawn: list[Drawn]) -> Results:
    return [[torch.softmax(one.tensors[0], -1) * one.tensors[0]] for one in drawn]


def _spoiled(results: Results, place: int, by: float) -> Results:
    """One call's results scaled by a little."""
    made = [list(call) for call in results]
    made[place][0] = made[place][0] * (1 + by)
    return made


def test_no_row_repeats_another_or_a_part_of_it(reference: Reference) -> None:
    rows = FreshRows(reference)
    drawn = [one.tensors[0] for _ in range(3) for one in rows.draw(OWN, [False, True])]
    drawn.append(FreshRows(reference).draw(OWN, [False])[0].tensors[0])
    stored = reference.store.read_tensors(f"{reference.ensure(0, OWN, 0).name}.in", reference.variants[0].input_fields)
    parts = [tuple(row.tolist()) for tensor in (*drawn, *stored) for row in tensor]
    assert len(set(parts)) == len(parts) == 8 * 8


def test_rows_of_another_distribution_have_its_values(reference: Reference) -> None:
    assert "zeros" in reference.distributions and "uniform" in reference.distributions
    (zeros,) = FreshRows(reference).draw("zeros", [False])
    assert 0.2 < float((zeros.tensors[0] == 0).float().mean()) < 0.8
    (uniform,) = FreshRows(reference).draw("uniform", [False])
    assert float(uniform.tensors[0].abs().max()) <= 1


def test_truths_are_made_for_the_chosen_sets_alone(reference: Reference) -> None:
    rows = FreshRows(reference)
    rows.draw(OWN, [False, True, False, True])
    assert [made.exact is not None for made in rows.sets] == [False, True, False, True]
    assert [made.drawn is not None for made in rows.sets] == [False, True, False, True]
    rows.draw(OWN, [True])
    assert len(rows.sets) == 1, "the row before is forgotten"
    rows.forget()
    assert rows.sets == []


@pytest.mark.parametrize("forward", ["x.sum()", "torch.argmax(x, -1)", "torch.topk(x, 2)[1]"])
def test_numbers_that_may_cancel_and_ties_always_get_a_truth(tmp_path: Path, forward: str) -> None:
    rows = FreshRows(reference_of(simple(tmp_path, forward), tmp_path))
    rows.draw(OWN, [False, False])
    assert all(made.exact is not None for made in rows.sets)


def test_a_row_of_right_results_passes_either_way(reference: Reference) -> None:
    rows = FreshRows(reference)
    for distribution in reference.distributions:
        results = _right(rows.draw(distribution, [True, False, False]))
        found = rows.compare(results, results)
        assert (found["kind"], found["text"], found["baseline"]) == ("", "", ""), distribution
        assert 0 <= found["error"] <= 1
    results = _right(rows.draw(OWN, [True, True]))
    assert rows.compare(results, None)["kind"] == ""


@pytest.mark.parametrize("place", [0, 1, 2], ids=["truth", "baseline", "last"])
def test_one_wrong_result_among_right_ones_is_found_either_way(reference: Reference, place: int) -> None:
    rows = FreshRows(reference)
    right = _right(rows.draw("heavy", [True, False, False]))
    found = rows.compare(_spoiled(right, place, 0.05), right)
    assert found["kind"] == "numeric" and found["error"] > 1
    assert "in a timed call, on input distribution 'heavy'" in found["text"] and found["baseline"] == ""


def test_a_result_of_another_call_is_wrong(reference: Reference) -> None:
    """As from a cache that a part of the input is the key of."""
    rows = FreshRows(reference)
    right = _right(rows.draw(OWN, [False, False]))
    assert rows.compare([right[0], right[0]], right)["kind"] == "numeric"
    assert rows.compare([right[1], right[0]], right)["kind"] == "numeric"


def test_beside_the_baseline_the_band_is_wider_and_no_more_than_that(reference: Reference) -> None:
    rows = FreshRows(reference)
    right = _right(rows.draw(OWN, [False]))
    (band,) = rows.sets[0].bands
    assert band is not None
    for share, kind in ((0.9, ""), (1.1, "numeric")):
        # By the rms, the smaller of both limits for errors that are even; other limits are made wide enough.
        rows.sets[0].bands = [replace(band, tau=1e3, separated=False)]
        by = share * _BESIDE_BASELINE * band.rms_limit
        assert rows.compare(_spoiled(right, 0, by), right)["kind"] == kind, share
        rows.sets[0].bands = [replace(band, rms_limit=1e3, tau=1e-3, scale=0.0, separated=False)]
        assert rows.compare(_spoiled(right, 0, share * _BESIDE_BASELINE * 1e-3), right)["kind"] == kind, share


def test_results_that_are_no_numbers_are_wrong_beside_a_baseline_too(reference: Reference) -> None:
    rows = FreshRows(reference)
    right = _right(rows.draw(OWN, [False]))
    wrong = [[right[0][0].clone()]]
    wrong[0][0][3, 3] = torch.nan
    assert rows.compare(wrong, right)["kind"] == "non_finite"


def test_a_baseline_that_is_wrong_itself_is_told_apart_from_a_wrong_candidate(reference: Reference) -> None:
    rows = FreshRows(reference)
    right = _right(rows.draw(OWN, [True]))
    found = rows.compare(right, _spoiled(right, 0, 0.05))
    assert found["kind"] == "" and found["baseline"]


def test_without_truth_and_baseline_nothing_passes(reference: Reference) -> None:
    rows = FreshRows(reference)
    with pytest.raises(AssertionError, match="neither"):
        rows.compare(_right(rows.draw(OWN, [False])), None)
