"""Errors of the elements of one magnitude: what the rms over all of them does not show."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from support import drawn, reference_of, simple
from torch import nn

from kforge_harness.trusted.compare import compare
from kforge_harness.trusted.octaves import _SAMPLE, FEWEST, Octave, octaves
from kforge_harness.trusted.precisions import round_to
from kforge_harness.trusted.sets import OWN, SLICE
from kforge_harness.trusted.truth import Band, Measured, Measurement, limits, measure, truth

STRICT = {"mul": "fp32", "acc": "fp32", "math": "exact"}


def test_elements_are_told_apart_by_the_exponent_of_the_truth() -> None:
    true = torch.cat([torch.full((FEWEST,), 3.0), torch.full((2 * FEWEST,), -0.25)]).double()
    got = true.clone()
    got[:FEWEST] *= 1 + 1e-3
    got[FEWEST:] *= 1 - 1e-5
    found = octaves(got, true)
    assert set(found) == {2, -1} and found[2].count == FEWEST and found[-1].count == 2 * FEWEST
    assert found[2].error == pytest.approx(1e-3) and found[-1].error == pytest.approx(1e-5)


def test_what_is_zero_not_finite_or_rare_says_nothing() -> None:
    true = torch.cat([torch.zeros(FEWEST), torch.full((FEWEST,), float("inf")), torch.full((FEWEST - 1,), 5.0)])
    assert octaves(true.clone(), true.double()) == {}
    assert octaves(torch.ones(3), torch.ones(3).double()) == {} == octaves(torch.empty(0), torch.empty(0))


def test_a_single_element_that_cancels_does_not_make_up_its_magnitude() -> None:
    true = torch.ones(1000, dtype=torch.float64)
    got = true * (1 + 1e-7)
    got[5] += 1e-4
    assert octaves(got, true)[1].error < 2e-7


def test_of_a_large_output_a_sample_is_looked_at() -> None:
    true = torch.ones(3 * _SAMPLE, dtype=torch.float64)
    found = octaves(true * 1.5, true)
    assert found == {1: Octave(_SAMPLE, pytest.approx(0.5))}


class Rows(nn.Module):
    """Rows of very different magnitude: the first make up the rms."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def rows_case(seed: int) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor, Band]:
    measured = []
    for number in range(2):
        torch.manual_seed(seed + number)
        a = torch.randn(64, 256)
        a[8:] *= 2.0**-12
        inputs = drawn(a, torch.randn(256, 64))
        exactly = truth(Rows(), inputs)
        measured.append(measure(Rows(), inputs, exactly, "fp32", [256], by_octave=[True]))
    ((band,), _beyond) = limits(measured, STRICT, [256], True)
    assert band is not None
    return (inputs.tensors[0], inputs.tensors[1]), exactly[0][0], band


def test_lower_precision_of_small_rows_is_refused_though_the_rms_does_not_show_it() -> None:
    (a, b), exact, band = rows_case(1)
    low = a @ b
    low[8:] = (round_to(a[8:], "tf32").double() @ round_to(b, "tf32").double()).float()
    found = compare(low, exact, band, None, "output", "fp32")
    assert found.kind == "precision" and "of their own size" in found.text and found.error > 5
    assert compare(low, exact, band.of_all(), None, "output", "fp32").kind == "", "as a whole it passes"


def test_a_sum_one_after_the_other_passes_in_rows_of_all_magnitudes() -> None:
    (a, b), exact, band = rows_case(3)
    total = torch.zeros_like(exact, dtype=torch.float32)
    for k in range(a.shape[1]):
        total += a[:, k : k + 1] * b[k]
    found = compare(total, exact, band, None, "output", "fp32")
    assert found.kind == "" and found.error < 1 / 1.5


def test_limits_survive_being_kept() -> None:
    _inputs, _exact, band = rows_case(5)
    assert band.octaves and band.tells
    assert Band(**json.loads(json.dumps(asdict(band)))) == band
    assert not band.of_all().octaves and band.octaves


def test_a_magnitude_that_is_off_otherwise_on_each_draw_or_not_told_apart_is_left_out() -> None:
    def made(own: float, lower: float) -> Measurement:
        one = Measured(torch.float32, False, 1e-7, 1e-6, 1e-7, 1e-6, 1e-3)
        one.octaves, one.octaves_lower = (
            {0: Octave(FEWEST, own), 1: Octave(FEWEST, 1e-7)},
            {
                0: Octave(FEWEST, lower),
                1: Octave(FEWEST, 1e-3),
            },
        )
        return Measurement([one], False)

    def known(*sets: Measurement) -> set[int]:
        ((band,), _beyond) = limits(list(sets), STRICT, [1], True)
        assert band is not None
        return set(band.octaves)

    assert known(made(1e-7, 1e-3), made(2e-7, 1e-3)) == {0, 1}
    assert known(made(1e-7, 1e-3), made(9e-7, 1e-3)) == {1}, "nine times as far on another draw"
    assert known(made(1e-7, 1e-6), made(1e-7, 1e-6)) == {1}, "lower precision is hardly worse"


def test_a_branch_of_a_tenth_under_bf16_is_proven_and_slices_are_held_to_the_whole(tmp_path: Path) -> None:
    problem = simple(
        tmp_path,
        "x + 0.1 * self.fc(x)",
        "torch.randn(16, 512).bfloat16()",
        "self.fc = nn.Linear(512, 512, bias=False, dtype=torch.bfloat16)",
    )
    reference = reference_of(problem, tmp_path)
    assert reference.precision() == "proven"
    (band,) = reference.ensure(0, "sparse", 0).bands
    assert band is not None and band.octaves and not band.separated
    assert any(b and b.octaves for b in reference.ensure(0, OWN, 0).bands)
    assert not any(b and b.octaves for b in reference.ensure(0, SLICE, 0).bands)


@pytest.mark.parametrize("size, mixes", [(1, False), (3, True)])
def test_convolutions_of_neighbours_are_held_to_the_whole(tmp_path: Path, size: int, mixes: bool) -> None:
    init = f"self.conv = nn.Conv2d(16, 8, {size})"
    reference = reference_of(simple(tmp_path, "self.conv(x)", "torch.randn(4, 16, 16, 16)", init), tmp_path)
    assert reference.variants[0].mixes == [mixes]
    assert any(band and band.octaves for (band,) in reference.bands.values()) != mixes
