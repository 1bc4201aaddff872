"""Which distributions are used, which inputs are varied, and limits that hold on the next draw too."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from support import problem_of, reference_of, simple

from kforge_harness.trusted import bearing, intake, truth
from kforge_harness.trusted.compare import compare
from kforge_harness.trusted.draw import OWN, VARIED
from kforge_harness.trusted.precisions import round_to
from kforge_harness.trusted.problem import ProblemError
from kforge_harness.trusted.sets import Reference

MASKED = """
class Model(nn.Module):
    def forward(self, x, mask, size):
        return torch.softmax((x @ x.transpose(-2, -1)).masked_fill(~mask, -1e4), -1) @ x / size
def get_inputs():
    return [torch.randn(4, 32, 16), torch.ones(32, 32, dtype=torch.bool).tril(), torch.tensor(3)]
"""


def inputs_of(reference: Reference, distribution: str, number: int = 0) -> list[torch.Tensor]:
    made = reference.ensure(0, distribution, number)
    return reference.store.read_tensors(f"{made.name}.in", reference.variants[0].input_fields)


def judged(reference: Reference, distribution: str, outputs: list[torch.Tensor], number: int = 0) -> list[str]:
    made = reference.ensure(0, distribution, number)
    truths, sources = reference.truth_of(made)
    mul = reference.contract["mul"]
    return [
        compare(got, true, band, sources.get(i), "output", mul).kind
        for i, (got, true, band) in enumerate(zip(outputs, truths, made.bands, strict=True))
    ]


def test_a_mask_that_is_the_same_each_time_is_varied_and_what_cannot_be_is_named(tmp_path: Path) -> None:
    reference = reference_of(problem_of(tmp_path, MASKED), tmp_path)
    assert VARIED in reference.distributions and reference.plan.ways == ["", "triangle", ""]
    assert any("not varied" in note and note.endswith(": size") for note in reference.notes)
    x, mask, _size = inputs_of(reference, VARIED)
    causal = torch.ones(32, 32, dtype=torch.bool).tril()
    assert not torch.equal(mask, causal) and not bool((mask & ~causal).any())

    def output(mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax((x @ x.transpose(-2, -1)).masked_fill(~mask, -1e4), -1) @ x / 3

    assert judged(reference, VARIED, [output(mask)]) == [""]
    assert judged(reference, VARIED, [output(causal)]) == ["numeric"], "whoever leaves the mask out"
    assert not torch.equal(mask, inputs_of(reference, VARIED, 1)[1])


@pytest.mark.parametrize("fixed", [["mask"], [1]])
def test_the_contract_may_hold_inputs_fixed(tmp_path: Path, fixed: list[str | int]) -> None:
    reference = reference_of(problem_of(tmp_path, MASKED), tmp_path, {"fixed": fixed})
    assert VARIED not in reference.distributions and "held fixed by the contract: mask" in reference.notes
    with pytest.raises(ProblemError, match=r"`fixed` names 'maks'.*x, mask, size"):
        reference_of(problem_of(tmp_path, MASKED), tmp_path, {"fixed": ["maks"]})


def test_one_input_that_cannot_be_varied_exempts_no_other(tmp_path: Path) -> None:
    text = """
    class Model(nn.Module):
        def forward(self, x, table, scale):
            if float(table.sum()) != 2016.0:
                raise ValueError("another table")
            return x * table * scale
    def get_inputs():
        return [torch.randn(8, 64), torch.arange(64.0), torch.full((64,), 0.5)]
    """
    reference = reference_of(problem_of(tmp_path, text), tmp_path)
    assert reference.plan.ways == ["", "", "scale"] and VARIED in reference.distributions
    assert any("not varied" in note and note.endswith(": table") for note in reference.notes)


def test_inputs_that_follow_the_seed_are_left_as_they_come(tmp_path: Path) -> None:
    inputs = "torch.randn(8, 16), torch.randint(0, 9, (64,))"
    reference = reference_of(simple(tmp_path, "x * rest[0].sum()", inputs), tmp_path)
    assert VARIED not in reference.distributions and reference.varies and reference.notes == []


def test_a_problem_that_seeds_itself_is_varied_all_the_same(tmp_path: Path) -> None:
    inputs = "torch.randn(8, 16, generator=torch.Generator().manual_seed(1))"
    reference = reference_of(simple(tmp_path, "x @ x.t()", inputs), tmp_path)
    assert reference.distributions == [OWN, "fine", VARIED] and reference.varies and not reference.own_varies
    sets = [inputs_of(reference, name, number)[0] for name in ("fine", VARIED) for number in (0, 1)]
    assert not any(torch.equal(a, b) for i, a in enumerate(sets) for b in sets[:i])


def test_a_problem_whose_inputs_never_vary_is_flagged(tmp_path: Path) -> None:
    fixed = reference_of(simple(tmp_path, "x * 2.0", "torch.full((8, 8), 1)"), tmp_path)
    report = intake.examine(fixed)
    assert not fixed.varies and any(flag.startswith("fixed_inputs: no input varies") for flag in report["flags"])
    usual = reference_of(simple(tmp_path, "x * 2.0"), tmp_path)
    assert usual.varies and not any("fixed_inputs" in flag for flag in intake.examine(usual)["flags"])


@pytest.mark.parametrize(
    "forward, inputs, init, expected",
    [
        ("torch.softmax(x, -1)", "torch.randn(32, 64)", "", "not_applicable"),
        ("x @ rest[0]", "torch.rand(32, 64), torch.rand(64, 32)", "", "proven"),
        ("(x @ rest[0]).mean()", "torch.rand(64, 256), torch.rand(256, 64)", "", "proven"),
        ("x * self.w", "torch.rand(32, 64)", "self.w = nn.Parameter(torch.rand(32, 64))", "proven"),
        ("x * self.w", "torch.rand(64, 1024)", "self.w = nn.Parameter(torch.rand(1024))", "not_applicable"),
        ("(x @ rest[0]).sign()", "torch.rand(32, 64), torch.rand(64, 32)", "", "unproven"),
        ("(x @ rest[0]).argmax(-1)", "torch.randn(256, 64), torch.randn(64, 256)", "", "proven"),
        ("F.conv2d(x, rest[0])", "torch.rand(2, 3, 16, 16), torch.rand(4, 3, 3, 3)", "", "proven"),
        ("torch.einsum('ij,kj->ik', x, x)", "torch.rand(16, 32)", "", "proven"),
    ],
)
def test_precision_is_proven_or_not_or_does_not_matter(
    tmp_path: Path, forward: str, inputs: str, init: str, expected: str
) -> None:
    reference = reference_of(simple(tmp_path, forward, inputs, init), tmp_path)
    assert reference.precision() == expected == intake.examine(reference)["precision"]
    assert reference.proven() == (expected != "unproven")


def test_at_least_two_distributions_stay_and_are_named(tmp_path: Path) -> None:
    for forward in ("torch.log(x)", "torch.acos(x).sqrt()", "torch.log(x) + torch.log(1 - x)"):
        reference = reference_of(simple(tmp_path, forward, "torch.rand(64, 64) * 0.9 + 0.05"), tmp_path)
        assert len(reference.distributions) >= 2, forward
        assert intake.examine(reference)["distributions"] == reference.distributions


SOFT = "F.softmax(F.gelu(self.linear(x)), dim=1)"


def test_the_same_kernel_gets_the_same_verdict_on_every_draw(tmp_path: Path) -> None:
    """Heavy tails in front of a softmax: single elements of a bf16 product are then off by whatever they like."""
    init = "self.linear = nn.Linear(256, 512)"
    reference = reference_of(simple(tmp_path, SOFT, "torch.rand(128, 256)", init), tmp_path, {"mul": "bf16"})
    assert "heavy" not in reference.distributions and any("takes up the tolerance" in n for n in reference.notes)
    assert {OWN, "fine"} <= set(reference.distributions) and reference.precision() == "proven"
    linear = reference.model(0).get_submodule("linear")
    weight, bias = linear.get_parameter("weight").detach(), linear.get_parameter("bias").detach()
    for distribution in reference.distributions:
        for number in range(6):
            (x,) = inputs_of(reference, distribution, number)

            def at(precision: str, x: torch.Tensor = x) -> list[torch.Tensor]:
                product = F.linear(round_to(x, precision), round_to(weight, precision), bias)
                return [F.softmax(F.gelu(round_to(product, "bf16")), dim=1)]

            assert judged(reference, distribution, at("bf16"), number) == [""], (distribution, number)
            assert judged(reference, distribution, at("fp8"), number) != [""], (distribution, number)


def test_bands_are_the_worst_of_many_draws(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "x - x.mean()", "torch.randn(4, 8)"), tmp_path)
    (band,) = reference.bands_of(OWN)
    assert band is not None
    for number in range(20):
        drawn = reference.draw(0, OWN, 5000 + number)
        if number < 15:
            measured = truth.measure(reference.model(0), drawn, reference.exactly(0, drawn), "fp32", [32]).outputs[0]
            assert measured is not None and measured.own <= band.e_hi and 4 * measured.own_worst <= band.tau


def test_sets_under_another_secret_are_other_sets_of_the_same_distribution(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "x @ x.t()"), tmp_path)
    for distribution in reference.distributions:
        first, again, other = (reference.draw(0, distribution, 0, s) for s in (b"a", b"a", b"b"))
        assert torch.equal(first.tensors[0], again.tensors[0]), distribution
        assert not torch.equal(first.tensors[0], other.tensors[0])
        assert not torch.equal(first.tensors[0], reference.draw(0, distribution, 0).tensors[0])
        assert reference.bands_of(distribution) == reference.ensure(0, distribution, 0).bands


@pytest.mark.parametrize("dtype", ["torch.float8_e4m3fn", "torch.float8_e5m2"])
def test_eight_bit_floats_are_judged(tmp_path: Path, dtype: str) -> None:
    text = f"""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(16, 64).to({dtype}), requires_grad=False)
        def forward(self, x):
            y = x.float() @ self.w.float().t()
            return y, y.to({dtype})
    def get_inputs():
        return [torch.randn(32, 64).to({dtype})]
    """
    reference = reference_of(problem_of(tmp_path, text), tmp_path)
    assert reference.contract["mul"] == "fp8" and len(reference.distributions) > 3
    assert not intake.examine(reference)["flags"]
    for distribution in (*reference.distributions, "slice"):
        (x,) = inputs_of(reference, distribution)
        y = x.float() @ reference.model(0).get_parameter("w").float().t()
        assert judged(reference, distribution, [y, y.to(x.dtype)]) == ["", ""], distribution
        assert judged(reference, distribution, [y * 1.1, (y * 1.5).to(x.dtype)]) == ["numeric"] * 2


def test_sorted_inputs_stay_sorted_and_symmetric_ones_symmetric(tmp_path: Path) -> None:
    text = """
    class Model(nn.Module):
        def forward(self, edges, falling, matrix, x):
            return torch.searchsorted(edges, x), falling * 2, matrix @ matrix
    def get_inputs():
        made = torch.rand(24, 24)
        return [torch.rand(4, 16).sort(-1).values, torch.rand(16).sort(descending=True).values, made + made.T, torch.rand(4, 9)]
    """
    reference = reference_of(problem_of(tmp_path, text), tmp_path)
    assert reference.plan.kept == ["rising", "falling", "symmetric", ""]
    assert {"normal", "uniform", "heavy", "zeros"} <= set(reference.distributions)
    for distribution in reference.distributions:
        edges, falling, matrix, _x = inputs_of(reference, distribution)
        assert bool((edges.diff(dim=-1) >= 0).all()) and bool((falling.diff() <= 0).all()), distribution
        assert torch.equal(matrix, matrix.mT), distribution


def test_inputs_that_are_sorted_in_one_draw_only_are_not(tmp_path: Path) -> None:
    reference = reference_of(
        simple(tmp_path, "x * 2 + rest[0].sum()", "torch.randn(8, 16), torch.rand(1, 2)"), tmp_path
    )
    assert reference.plan.kept == ["", ""]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_floating_inputs_that_are_whole_numbers_stay_whole(tmp_path: Path, dtype: torch.dtype) -> None:
    text = f"""
    class Model(nn.Module):
        def forward(self, x, steps):
            return x * torch.arange(1000, device=x.device)[steps.long()].to(x.dtype)
    def get_inputs():
        return [torch.randn(64, dtype={dtype}), torch.randint(0, 1000, (64,)).to({dtype})]
    """
    reference = reference_of(problem_of(tmp_path, text), tmp_path)
    assert reference.plan.structured == [False, True]
    for distribution in reference.distributions:
        steps = inputs_of(reference, distribution)[1]
        assert torch.equal(steps, steps.round()) and steps.min() >= 0 and steps.max() < 1000, distribution


def test_large_values_are_not_taken_for_whole_numbers(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "x * 2", "1e12 * torch.randn(8, 16)"), tmp_path)
    assert reference.plan.structured == [False]


def test_why_a_distribution_is_not_used(tmp_path: Path) -> None:
    near = simple(tmp_path, "torch.sin(1e5 * x)", "1e-4 * torch.rand(8, 64)")
    assert any(
        note.endswith("eager itself is too far from float64 on it") for note in reference_of(near, tmp_path).notes
    )


def test_outputs_of_few_elements_are_measured_on_many_draws(tmp_path: Path) -> None:
    few = reference_of(simple(tmp_path, "x.sum()", "torch.randn(256, 1024)"), tmp_path)
    assert len(bearing._numbers(few)) == 16
    many = reference_of(simple(tmp_path, "x.sum(-1)", "torch.randn(256, 1024)"), tmp_path)
    assert len(bearing._numbers(many)) == 4
