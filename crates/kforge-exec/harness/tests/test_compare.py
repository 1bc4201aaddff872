"""What passes, what does not, and how the difference is worded."""

from __future__ import annotations

import pytest
import torch

from kforge_harness.trusted.compare import Comparison, compare
from kforge_harness.trusted.errors import rms_of
from kforge_harness.trusted.indices import IndexSource
from kforge_harness.trusted.truth import Band

INF, NAN = float("inf"), float("nan")


def band(rms_limit: float = 1e-6, tau: float = 2e-5, e_lo: float = 3e-4, separated: bool = True) -> Band:
    return Band(rms_limit, tau, 1.0, rms_limit / 4, e_lo, separated)


def judge(got: torch.Tensor, true: torch.Tensor, allowed: Band | None = None, name: str = "output") -> Comparison:
    return compare(got, true.double() if true.is_floating_point() else true, allowed or band(), None, name, "fp32")


def test_the_rounded_truth_passes_with_little_used() -> None:
    true = torch.randn(64, 64, dtype=torch.float64)
    found = judge(true.float(), true)
    assert found.kind == found.text == "" and 0 < found.error < 0.2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_comparing_changes_neither_side(dtype: torch.dtype) -> None:
    true = torch.randn(64, 64, dtype=torch.float64)
    got = (true * 1.5).to(dtype)
    kept, truth = got.clone(), true.clone()
    assert judge(got, true).kind == "numeric" and torch.equal(got, kept) and torch.equal(true, truth)


def test_one_wrong_element_is_named_with_place_and_values() -> None:
    true = torch.ones(3, 4, 5)
    got = true.clone()
    got[1, 2, 3] = 1.5
    found = judge(got, true, name="output 1")
    assert found.kind == "numeric" and found.error > 1
    assert found.text.startswith("output 1: 1 of 60 elements are outside the tolerance; worst at (1, 2, 3)")
    assert "expected 1, got 1.5 (error 0.5, allowed 4e-05)" in found.text


def test_the_worst_of_several_is_named() -> None:
    true = torch.ones(10)
    got = true + torch.tensor([0, 0.1, 0, 0.3, 0, 0, 0, -0.2, 0, 0])
    found = judge(got, true)
    assert "3 of 10" in found.text and "worst at (3,)" in found.text


def test_an_even_error_of_lower_precision_has_its_own_kind() -> None:
    torch.manual_seed(0)
    true = torch.randn(100, 100, dtype=torch.float64)
    found = judge((true + 3e-4 * torch.randn(100, 100)).float(), true)
    assert found.kind == "precision"
    assert "fp32 arithmetic stays below 1.00e-06" in found.text and "makes 3.00e-04" in found.text
    assert "worst at" in found.text, "the element is told too"


def test_the_same_error_without_separation_is_numeric() -> None:
    torch.manual_seed(0)
    true = torch.randn(100, 100, dtype=torch.float64)
    assert judge((true + 3e-4 * torch.randn(100, 100)).float(), true, band(separated=False)).kind == "numeric"


def test_a_few_large_errors_are_not_called_precision() -> None:
    true = torch.randn(1000, dtype=torch.float64)
    got = true.float()
    got[::100] += 0.005
    assert judge(got, true).kind == "numeric"


def test_an_error_far_beyond_lower_precision_is_numeric() -> None:
    true = torch.randn(1000, dtype=torch.float64)
    assert judge(true.float() * 1.5, true).kind == "numeric"


def test_a_systematic_error_below_the_element_band_is_found_by_the_rms() -> None:
    true = torch.randn(1000, dtype=torch.float64)
    got = (true * (1 + 1.5e-5)).float()
    assert judge(got, true).kind == "precision"
    assert judge(got, true, band(rms_limit=1e-4)).kind == ""


@pytest.mark.parametrize(
    "got, true",
    [(NAN, 1.0), (1.0, NAN), (INF, 1.0), (1.0, INF), (-INF, INF), (NAN, INF), (INF, NAN), (3.0e38, 1e39)],
)
def test_another_class_of_value_is_refused(got: float, true: float) -> None:
    found = judge(torch.tensor([0.0, got]), torch.tensor([0.0, true], dtype=torch.float64))
    assert found.kind == "non_finite" and "1 of 2" in found.text and "first at (1,)" in found.text


def test_the_same_class_of_value_passes() -> None:
    true = torch.tensor([1.0, NAN, INF, -INF, 1e39], dtype=torch.float64)
    assert judge(torch.tensor([1.0, NAN, INF, -INF, INF]), true).kind == ""


def test_all_non_finite_and_empty_outputs_pass() -> None:
    assert judge(torch.full((4,), NAN), torch.full((4,), NAN)).kind == ""
    assert judge(torch.empty(0, 3), torch.empty(0, 3)).kind == ""


def test_a_truth_of_zeros_wants_zeros() -> None:
    assert judge(torch.zeros(8), torch.zeros(8)).kind == ""
    assert judge(torch.full((8,), 1e-3), torch.zeros(8)).kind != ""


def test_a_scalar_output_is_named_without_a_place() -> None:
    found = judge(torch.tensor(2.0), torch.tensor(1.0))
    assert found.kind == "numeric" and "worst at ()" in found.text


def test_integers_are_exact() -> None:
    true = torch.arange(6).reshape(2, 3)
    assert compare(true.clone(), true, None, None, "output", "fp32").kind == ""
    got = true.clone()
    got[1, 0] += 1
    found = compare(got, true, None, None, "output", "fp32")
    assert (
        found.kind == "integer" and found.text == "output: 1 of 6 elements differ; first at (1, 0): expected 3, got 4"
    )


def test_booleans_are_exact() -> None:
    true = torch.tensor([True, False])
    found = compare(~true, true, None, None, "output", "fp32")
    assert found.kind == "integer" and "expected True, got False" in found.text


SCORES = torch.tensor([[1.0, 5.0, 5.0, 2.0], [7.0, 0.0, 7.0 * (1 - 2**-24), 3.0]])


def choose(*places: int, scores: torch.Tensor = SCORES, true: tuple[int, ...] = (1, 0)) -> str:
    source = IndexSource(scores, 1, False)
    return compare(torch.tensor(places), torch.tensor(true), None, source, "output", "fp32").kind


def test_ties_and_near_ties_may_be_broken_either_way() -> None:
    assert choose(1, 0) == choose(2, 0) == ""
    assert choose(1, 2) == choose(2, 2) == "", "single precision cannot tell these two apart"


def test_a_wrong_index_is_refused() -> None:
    assert choose(3, 0) == choose(1, 3) == "integer"


@pytest.mark.parametrize("place", [-1, 4, 2**40])
def test_an_index_out_of_range_is_refused(place: int) -> None:
    assert choose(place, 0) == "integer"


def test_the_smallest_is_looked_for_where_the_reference_did() -> None:
    assert choose(0, 1, true=(0, 1)) == ""
    assert choose(1, 1, true=(0, 1)) == "integer"


def test_an_index_over_everything_counts_flat() -> None:
    source = IndexSource(SCORES, None, False)
    true = torch.tensor(4)
    assert compare(torch.tensor(6), true, None, source, "output", "fp32").kind == ""
    assert compare(torch.tensor(5), true, None, source, "output", "fp32").kind == "integer"
    assert compare(torch.tensor(8), true, None, source, "output", "fp32").kind == "integer"


def test_kept_dimensions_are_understood() -> None:
    source = IndexSource(SCORES, 1, True)
    assert compare(torch.tensor([[2], [0]]), torch.tensor([[1], [0]]), None, source, "output", "fp32").kind == ""


def test_without_a_source_a_tie_is_no_excuse() -> None:
    assert compare(torch.tensor([2, 0]), torch.tensor([1, 0]), None, None, "output", "fp32").kind == "integer"


@pytest.mark.parametrize("mask", [-1e4, -1e9, torch.finfo(torch.float32).min])
def test_masks_are_no_measure_for_what_is_not_masked(mask: float) -> None:
    torch.manual_seed(3)
    true = torch.randn(64, 128).double()
    masked = torch.rand(64, 128) < 0.4
    exact = true.masked_fill(masked, mask)
    band = Band(1e-6, 2e-5, 1.0, 1e-7, 0.0, False)
    assert compare(exact.float(), exact, band, None, "output", "fp32").kind == ""
    rounded = exact.bfloat16().float().where(~masked, exact.float())
    assert compare(rounded, exact, band, None, "output", "fp32").kind == "numeric"
    assert rms_of(exact) == pytest.approx(float(true[~masked].square().mean().sqrt()))


def test_large_values_among_others_count() -> None:
    for values in (torch.randn(4096) * 1e6, torch.cat([torch.ones(4000) * 1e5, torch.randn(8)])):
        assert rms_of(values) == pytest.approx(float(values.double().square().mean().sqrt()))


def test_sums_without_products_are_not_told_to_compute_in_another_precision() -> None:
    torch.manual_seed(0)
    true = torch.randn(100, 100, dtype=torch.float64)
    allowed = Band(1e-6, 2e-3, 1.0, 1e-6 / 4, 3e-4, True, multiplied=False)
    found = judge((true + 3e-4 * torch.randn(100, 100)).float(), true, allowed)
    assert found.kind == "numeric" and "in blocks or in pairs" in found.text and "Compute in" not in found.text
