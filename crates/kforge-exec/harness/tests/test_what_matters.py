"""What a call changes, which inputs matter, and sums of few terms: nothing that is saved may hide behind the rest."""

from __future__ import annotations

from pathlib import Path

import torch
from support import drawn, problem_of, reference_of, simple
from torch import nn

from kforge_harness.trusted import intake
from kforge_harness.trusted.compare import fits
from kforge_harness.trusted.draw import SPARSE, Plan, redraw, terms_of_sparse
from kforge_harness.trusted.precisions import round_to
from kforge_harness.trusted.truth import changes

STEP = """
import torch
class Model(torch.nn.Module):
    def forward(self, param, grad):
        param.add_(grad, alpha=-1e-6)
def get_inputs():
    return [torch.randn(64, 64), torch.randn(64, 64)]
def get_init_inputs():
    return []
"""
PENALTY = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, hidden):
        return x.square().sum(-1) + WEIGHT * hidden.square().mean()
def get_inputs():
    return [torch.randn(64, 64), torch.randn(64, 64)]
def get_init_inputs():
    return []
"""


def test_a_step_that_is_not_taken_is_seen_however_small_it_is(tmp_path: Path) -> None:
    reference = reference_of(problem_of(tmp_path, STEP), tmp_path)
    made = reference.ensure(0, "own", 0)
    (true,), _sources = reference.truth_of(made)
    param, grad = reference.draw(0, "own", 0).tensors
    taken = torch.add(param, grad, alpha=-1e-6)
    assert fits(taken, true, made.bands[0], None, "fp32")
    assert not fits(param, true, made.bands[0], None, "fp32"), "nothing was done"
    half = torch.add(param, grad, alpha=-0.5e-6)
    assert not fits(half, true, made.bands[0], None, "fp32")


def test_changes_are_measured_where_something_changed() -> None:
    class Shift(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    x = torch.randn(128, 128)
    near, far = x.double() * (1 + 1e-6), x.double() + 1.0
    (of_near, of_far, of_same) = changes(Shift(), drawn(x), [near, far, x.double()])
    assert 0.5e-6 < of_near.share < 2e-6 and of_near.stored > 1e5
    assert (of_far.share, of_far.stored) == (1.0, 1.0), "far from every input: all of it counts"
    assert of_same.share == 1.0, "a copy changes nothing"


def test_an_input_that_can_be_left_out_is_named(tmp_path: Path) -> None:
    for weight, expected in (("1e-7", ["hidden"]), ("0.1", []), ("0.0", [])):
        reference = reference_of(problem_of(tmp_path, PENALTY.replace("WEIGHT", weight)), tmp_path / weight)
        notes = intake.examine(reference)["notes"]
        assert reference.faint == expected, weight
        assert any("ignores hidden" in note for note in notes) == bool(expected)


def test_few_values_are_left_of_each_row_and_they_are_the_problem_s_own() -> None:
    x = torch.rand(32, 256) + 1.0
    plan = Plan([False, False], scalable=[True, True])
    made, other = redraw(drawn(x, x), plan, SPARSE, 1).tensors
    left = (made != 0).sum(-1)
    assert int(left.min()) >= 1 and int(left.max()) <= 4
    assert torch.equal(made[made != 0], x[made != 0]) and torch.equal(other, x), "only one operand"
    assert torch.equal(made, redraw(drawn(x, x), plan, SPARSE, 1).tensors[0])


def test_a_sum_of_few_terms_is_short_unless_something_else_is_summed_up() -> None:
    assert terms_of_sparse(16384, 1, 16384) == 64
    assert terms_of_sparse(16384, 1024, 16384) == 1024
    assert terms_of_sparse(16, 1, 256) == 16
    assert terms_of_sparse(4096, 1, 32) == 512


def test_weights_in_twenty_bits_show_where_few_terms_are_summed_up(tmp_path: Path) -> None:
    problem = simple(
        tmp_path, "self.linear(x)", "torch.randn(8, 8192)", init="self.linear = nn.Linear(8192, 64, False)"
    )
    reference = reference_of(problem, tmp_path)
    assert SPARSE in reference.distributions
    made = reference.ensure(0, SPARSE, 0)
    (true,), _sources = reference.truth_of(made)
    x, weight = reference.draw(0, SPARSE, 0).tensors[0], reference.model(0).linear.weight.detach()
    scale = weight.abs().amax() / 2**19
    for kept, passes in ((weight, True), ((weight / scale).round() * scale, False), (round_to(weight, "tf32"), False)):
        sequential = torch.zeros(8, 64)
        for column in range(8192):
            sequential += x[:, column : column + 1] * kept[:, column]
        assert fits(sequential, true, made.bands[0], None, "fp32") == passes
