"""Where rounding decides either answer is right, in floating outputs too, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support import drawn, reference_of, simple
from test_indices import Apply

from kforge_harness.trusted.compare import compare
from kforge_harness.trusted.doubt import Doubt, share_in_doubt
from kforge_harness.trusted.fresh import FreshRows
from kforge_harness.trusted.sets import Reference
from kforge_harness.trusted.store import Store
from kforge_harness.trusted.truth import Band, Exactly, truth

BAND = Band(1e-6, 2e-5, 1.0, 1e-7, 1e-3, True)


def kind(got: torch.Tensor, exactly: Exactly, index: int = 0) -> str:
    true = exactly[0][index]
    band = BAND if true.is_floating_point() else None
    return compare(got, true, band, exactly[1].get(index), "output", "fp32").kind


def grid(x: torch.Tensor) -> torch.Tensor:
    return torch.round(x / 0.3) * 0.3


def halves() -> torch.Tensor:
    """A few values next to halves of the grid, among others."""
    torch.manual_seed(3)
    x = torch.rand(64, 256)
    x[0, :4] = torch.tensor([0.15, 0.45, 0.75, 1.05])
    return x


def test_a_value_next_to_a_half_may_be_rounded_either_way_and_no_other() -> None:
    x = halves()
    exactly = truth(Apply(grid), drawn(x))
    doubt = exactly[1][0]
    assert isinstance(doubt, Doubt) and 4 <= doubt.places.numel() < 16
    for off in (1 - 3e-7, 1 + 3e-7):
        moved = x.clone()
        moved[0, :4] *= off
        got = grid(moved)
        assert kind(got, exactly) == "" and torch.equal(doubt.resolved(got, exactly[0][0])[1:], exactly[0][0][1:])
    between, elsewhere = grid(x), grid(x)
    between[0, 0] = 0.15
    elsewhere[1, 1] += 0.3
    assert kind(between, exactly) == kind(elsewhere, exactly) == "numeric"
    assert kind(torch.floor(x / 0.3) * 0.3, exactly) == "numeric", "whoever rounds everything down"


def test_ties_of_ranks_may_be_broken_either_way_in_what_they_lead_to() -> None:
    def gate(x: torch.Tensor) -> torch.Tensor:
        scores, chosen = torch.topk(x @ torch.eye(16, dtype=x.dtype), 2, dim=-1)
        return torch.zeros_like(x).scatter(1, chosen, torch.softmax(scores, -1))

    torch.manual_seed(5)
    x = torch.rand(512, 16)
    x[0] = torch.tensor([1.0, 3.0, 2.0, 2.0, *[0.0] * 12])
    exactly = truth(Apply(gate), drawn(x))
    for place in (2, 3):
        other = x.clone()
        other[0, place] += 0.25
        got = gate(x)
        got[0] = 0
        got[0, 1], got[0, place] = torch.softmax(torch.tensor([3.0, 2.0]), 0)
        assert kind(got, exactly) == ""
    got[0] = 0
    got[0, 1], got[0, 4] = torch.softmax(torch.tensor([3.0, 2.0]), 0)
    assert kind(got, exactly) == "numeric"


EXACT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "inputs compared": lambda x: (x > 0.5).to(x.dtype) * x,
    "nothing is so for everybody": lambda x: torch.floor(x * 3.0 * (x > 2)),
    "places unused": lambda x: x - x.max(-1, keepdim=True).values,
    "counts": lambda x: ((x > 0.5).to(x.dtype).sum(-1) >= 3).to(x.dtype),
}


@pytest.mark.parametrize("name", EXACT)
def test_nothing_is_in_doubt_where_nothing_is_rounded(name: str) -> None:
    x = halves()
    x[2] = 0.5
    _exact, sources, _doubled = truth(Apply(EXACT[name]), drawn(x))
    assert all(not isinstance(s, Doubt) or not s.places.numel() for s in sources.values())


def test_only_references_that_decide_are_run_more_than_once() -> None:
    for action, decides in ((lambda x: x.exp() * 2.0, False), (grid, True)):
        _exact, sources, _doubled = truth(Apply(action), drawn(halves()))
        assert any(isinstance(s, Doubt) and s.decides for s in sources.values()) == decides


def test_what_a_zero_point_is_added_to_may_come_out_either_way() -> None:
    def quantized(x: torch.Tensor) -> torch.Tensor:
        return (torch.round(x / 0.3) + 100).clamp(0, 255).to(torch.uint8)

    x = halves()
    exactly = truth(Apply(quantized), drawn(x))
    for off in (1 - 3e-7, 1 + 3e-7):
        assert kind(quantized(torch.cat([x[:1] * off, x[1:]])), exactly) == ""
    wrong = quantized(x)
    wrong[1, 1] += 1
    assert kind(wrong, exactly) == "integer"


def test_sorted_values_are_in_order_and_the_ones_that_came_in() -> None:
    torch.manual_seed(6)
    x = torch.rand(4, 1024)
    exactly = truth(Apply(lambda x: torch.sort(x, dim=1)[0]), drawn(x))
    right = x.sort(1)[0]
    assert kind(right, exactly) == ""
    turned = right.clone()
    turned[0, [10, 11]] = right[0, [11, 10]]
    assert kind(turned, exactly) == "numeric"
    assert kind(right * (1 + 2.0**-20), exactly) == "numeric", "nothing about them is rounded"
    computed = truth(Apply(lambda x: torch.topk(x * 3.0, 8).values), drawn(x))
    best = (x * 3.0).topk(8).values
    assert kind(best * (1 + 2.0**-22), computed) == ""
    assert kind(best.flip(1), computed) == "numeric"


def test_doubts_are_kept_with_a_set(tmp_path: Path) -> None:
    problem = simple(tmp_path, "torch.round(x / 0.3) * 0.3", "torch.randn(256, 256)")
    reference = reference_of(problem, tmp_path)
    assert reference.decides
    made = reference.ensure(0, "own", 0)
    again = Reference(problem, reference.contract, reference.secret, Store(str(tmp_path / "store")), False)
    again.restore(reference.keep())
    (one,), (other,) = (r.truth_of(r.ensure(0, "own", 0))[1].values() for r in (reference, again))
    assert isinstance(one, Doubt) and isinstance(other, Doubt)
    assert torch.equal(one.places, other.places) and torch.equal(one.values, other.values)
    assert made.bands[0] is not None and made.bands[0].tau < 1e-3, "a step that eager takes elsewhere is no error"
    rows = FreshRows(again)
    rows.draw("own", [False])
    assert rows.sets[0].exact is not None


def test_a_distribution_on_which_rounding_decides_much_is_left_out(tmp_path: Path) -> None:
    decided = (
        "torch.where((x * 3.0 / 3.0 - x.abs().amax(-1, keepdim=True) * 0.0) * 1e-9 + 1.0 > 1.0, 1.0, 2.0) * x.exp()"
    )
    reference = reference_of(simple(tmp_path, decided, "torch.randn(64, 64)"), tmp_path)
    assert reference.distributions[0] == "own"
    made = reference.ensure(0, "own", 0)
    exact, sources = reference.truth_of(made)
    assert share_in_doubt(sources, exact) > 0.1 and any("decides too many elements" in note for note in reference.notes)
