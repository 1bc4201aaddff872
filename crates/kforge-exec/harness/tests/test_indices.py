"""Places of values: ties and near ties may be broken either way, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support import drawn, reference_of, simple
from torch import nn

from kforge_harness.trusted.compare import compare
from kforge_harness.trusted.indices import IndexSource
from kforge_harness.trusted.truth import truth


class Apply(nn.Module):
    def __init__(self, action: Callable[..., object]) -> None:
        super().__init__()
        self.action = action

    def forward(self, *inputs: torch.Tensor) -> object:
        return self.action(*inputs)


def near_ties(rows: int = 4, columns: int = 64) -> torch.Tensor:
    """Each value twice, one of them a unit larger: single precision has both, a sum in another order does not."""
    torch.manual_seed(2)
    half = torch.rand(rows, columns // 2)
    return torch.cat([half, torch.nextafter(half, torch.tensor(2.0))], 1)


CHOOSING: dict[str, Callable[[torch.Tensor], object]] = {
    "topk": lambda x: torch.topk(x, 6),
    "topk_smallest": lambda x: x.topk(6, largest=False),
    "topk_other_dim": lambda x: torch.topk(x.t(), 6, dim=0),
    "sort": lambda x: torch.sort(x, descending=True),
    "argsort": lambda x: torch.argsort(x, -1),
    "first_of_argsort": lambda x: torch.argsort(x, dim=-1, descending=True)[:, :6],
    "one_rank": lambda x: x.sort(-1).indices[:, 3],
    "other_dtype": lambda x: x.topk(6).indices.to(torch.int32),
    "argmax": lambda x: x.argmax(-1),
}


@pytest.mark.parametrize("name", CHOOSING)
def test_near_ties_may_be_broken_either_way_and_others_not(name: str) -> None:
    x = near_ties()
    exact, sources, doubled = truth(Apply(CHOOSING[name]), drawn(x))
    index = len(exact) - 1
    true, source = exact[index], sources[index]
    dim = 0 if name == "topk_other_dim" else 1
    partner = ((true.long() + 32) % 64).to(true.dtype)
    assert doubled and compare(true, true, None, source, "output", "fp32").kind == ""
    assert compare(partner, true, None, source, "output", "fp32").kind == ""
    assert compare(partner, true, None, None, "output", "fp32").kind == "integer", "the ties are what is let pass"
    wrong = true.clone()
    wrong.flatten()[0] = (int(true.flatten()[0]) + 1) % 64
    assert compare(wrong, true, None, source, "output", "fp32").kind == "integer"
    outside = true.clone()
    outside.flatten()[0] = 64
    assert compare(outside, true, None, source, "output", "fp32").kind == "integer"
    if true.dim() == 2:
        twice = true.clone()
        twice.select(dim, 1).copy_(twice.select(dim, 0))
        flat = IndexSource(torch.ones(64, 4) if dim == 0 else torch.ones(4, 64), dim, True, distinct=True)
        assert not flat.accepts(twice, true), "the same place twice, though all values are the same"


def test_a_stable_sort_has_one_order() -> None:
    x = torch.tensor([[1.0, 0.0, 1.0, 0.0]])
    _exact, sources, _doubled = truth(Apply(lambda x: torch.sort(x, stable=True)), drawn(x))
    assert 1 not in sources


def test_integers_are_told_apart_however_large() -> None:
    source = IndexSource(torch.tensor([[10_000_000, 10_000_001]]), 1, True, distinct=True)
    assert not source.accepts(torch.tensor([[0]]), torch.tensor([[1]]))
    ties = IndexSource(torch.tensor([[3, 3, 1]]), 1, True, distinct=True)
    assert ties.accepts(torch.tensor([[1, 0]]), torch.tensor([[0, 1]]))


def test_an_extreme_itself_is_no_place() -> None:
    _exact, sources, _doubled = truth(Apply(lambda x: (x.max(), torch.maximum(x, x), x.amin())), drawn(torch.arange(9)))
    assert sources == {}


def test_computed_values_are_told_apart_where_eager_can(tmp_path: Path) -> None:
    inputs = "torch.rand(64, 2048), torch.rand(2048, 256)"
    reference = reference_of(simple(tmp_path, "torch.topk(x @ rest[0], 8).indices", inputs), tmp_path)
    made = reference.ensure(0, "own", 0)
    a, b = reference.store.read_tensors(f"{made.name}.in", reference.variants[0].input_fields)
    (true,), sources = reference.truth_of(made)

    def judged(scores: torch.Tensor) -> str:
        return compare(torch.topk(scores, 8).indices, true, None, sources[0], "output", "fp32").kind

    parts = sum((a[:, k : k + 64] @ b[k : k + 64] for k in range(0, 2048, 64)), torch.zeros(64, 256))
    assert judged(parts) == judged(a @ b) == ""
    assert judged((a.bfloat16() @ b.bfloat16()).float()) == "integer"
    assert reference.told and reference.precision() == "proven", "TF32 gives other places"


def nearly(value: float) -> torch.Tensor:
    """Products that are `value` but for rounding, among others that are not."""
    torch.manual_seed(4)
    x = torch.rand(64, 32) * 8
    x[:, ::4] = value
    return x


DECIDING: dict[str, tuple[float, Callable[[torch.Tensor], torch.Tensor]]] = {
    "round": (2.5, lambda x: torch.round(x / 3.0 * 3.0).to(torch.int8)),
    "floor": (3.0, lambda x: torch.floor(x / 3.0 * 3.0).to(torch.int32)),
    "ceil_and_clamp": (3.0, lambda x: torch.ceil(x / 3.0 * 3.0).clamp(0, 7).to(torch.uint8)),
    "cast": (3.0, lambda x: (x / 3.0 * 3.0).to(torch.int64)),
    "compared": (2.0, lambda x: x / 3.0 * 3.0 > 2.0),
    "compared_with_a_tensor": (2.0, lambda x: x / 3.0 * 3.0 <= torch.full_like(x, 2.0)),
}


@pytest.mark.parametrize("name", DECIDING)
def test_what_rounding_decides_may_come_out_either_way_and_nothing_else(name: str) -> None:
    value, decide = DECIDING[name]
    x = nearly(value)
    exact, sources, _doubled = truth(Apply(decide), drawn(x))
    true, source = exact[0], sources[0]
    near = torch.zeros_like(true, dtype=torch.bool)
    near[:, ::4] = True
    either = decide(torch.where(near, x * (1 - 3e-7), x)), decide(torch.where(near, x * (1 + 3e-7), x))
    assert not torch.equal(*either), "rounding decides"
    for got in either:
        assert compare(got, true, None, source, "output", "fp32").kind == ""
    for place in ((0, 0), (0, 1)):
        wrong = true.clone()
        wrong[place] = ~wrong[place] if true.dtype == torch.bool else wrong[place] + 2
        fine = true.dtype == torch.bool and place == (0, 0)
        assert compare(wrong, true, None, source, "output", "fp32").kind == ("" if fine else "integer")


def tied() -> torch.Tensor:
    torch.manual_seed(7)
    return torch.randint(0, 4, (2, 3, 12, 12)).float()


def last_of_ties(x: torch.Tensor) -> torch.Tensor:
    """Of 3 x 3 windows with stride 2 and padding 1."""
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1), value=-1.0)
    windows = padded.unfold(2, 3, 2).unfold(3, 3, 2).flatten(4)
    last = 8 - windows.flip(-1).argmax(-1)
    at = torch.arange(6) * 2 - 1
    return (at.view(-1, 1) + last // 3) * 12 + at + last % 3


def test_places_of_pooling_are_free_among_ties_within_their_windows() -> None:
    def pooled(x: torch.Tensor) -> object:
        return torch.nn.functional.max_pool2d(x, 3, stride=2, padding=1, return_indices=True)

    x = tied()
    (values, true), sources, _doubled = truth(Apply(pooled), drawn(x))
    got = last_of_ties(x)
    assert torch.equal(x.flatten(2).gather(2, got.flatten(2)).view_as(values).double(), values)
    assert not torch.equal(got, true)
    assert compare(got, true, None, sources[1], "output", "fp32").kind == ""
    elsewhere = true.clone()
    same = (x[0, 0].flatten() == values[0, 0, 0, 0]).nonzero().flatten()
    elsewhere[0, 0, 0, 0] = int(same[-1])
    assert int(same[-1]) > 14 and compare(elsewhere, true, None, sources[1], "output", "fp32").kind == "integer"


def test_places_of_adaptive_pooling_too() -> None:
    def pooled(x: torch.Tensor) -> object:
        return torch.nn.functional.adaptive_max_pool2d(x, (5, 5), return_indices=True)

    (_values, true), sources, _doubled = truth(Apply(pooled), drawn(tied()))
    assert compare(true, true, None, sources[1], "output", "fp32").kind == "" and sources[1].accepts(true, true)
    far = true.clone()
    far[..., 0, 0] = true[..., 4, 4]
    assert compare(far, true, None, sources[1], "output", "fp32").kind == "integer"


RANKS: dict[str, Callable[[torch.Tensor], object]] = {
    "median": lambda x: torch.median(x, dim=1),
    "kthvalue": lambda x: torch.kthvalue(x, 3, dim=1),
    "mode": lambda x: torch.mode(x, dim=1),
}


@pytest.mark.parametrize("name", RANKS)
def test_places_of_ranks_are_free_among_ties(name: str) -> None:
    x = tied().flatten(1)[:, :33]
    (values, true), sources, _doubled = truth(Apply(RANKS[name]), drawn(x))
    for got in ((x == values.unsqueeze(1)).int().argmax(1), 32 - (x == values.unsqueeze(1)).flip(1).int().argmax(1)):
        assert compare(got, true, None, sources[1], "output", "fp32").kind == ""
    wrong = (x != values.unsqueeze(1)).int().argmax(1)
    assert compare(wrong, true, None, sources[1], "output", "fp32").kind == "integer"


def test_running_places_are_free_among_ties_that_have_been() -> None:
    x = torch.tensor([[1.0, 3.0, 0.0, 3.0, 2.0, 3.0]])
    (_values, true), sources, _doubled = truth(Apply(lambda x: torch.cummax(x, dim=1)), drawn(x))
    for places, right in (
        ([0, 1, 1, 1, 1, 1], True),
        ([0, 1, 1, 3, 3, 5], True),
        ([0, 1, 3, 3, 3, 5], False),
        ([0, 1, 1, 4, 3, 5], False),
    ):
        found = compare(torch.tensor([places]), true, None, sources[1], "output", "fp32")
        assert (found.kind == "") == right


@pytest.mark.parametrize("how", ["permute", "reshape", "slice"])
def test_numbers_are_followed_through_views(how: str) -> None:
    def seen(x: torch.Tensor) -> torch.Tensor:
        made = (x / 3.0 * 3.0).to(torch.int64)
        views = {"permute": made.t().contiguous(), "reshape": made.reshape(32, 64), "slice": made[3:, ::2]}
        return views[how]

    x = nearly(3.0)
    exact, sources, _doubled = truth(Apply(seen), drawn(x))
    for off in (1 - 3e-7, 1 + 3e-7):
        got = seen(x * torch.where(x == 3.0, off, 1.0))
        assert compare(got, exact[0], None, sources[0], "output", "fp32").kind == ""
    assert compare(exact[0] + 2, exact[0], None, sources[0], "output", "fp32").kind == "integer"
