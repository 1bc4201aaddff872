"""Inputs that are the same each time, varied within what was observed of them."""

from __future__ import annotations

import pytest
import torch

from kforge_harness.trusted.vary import vary, ways

INF = float("inf")


def varied(tensor: torch.Tensor, way: str | None = None, seed: int = 3) -> torch.Tensor:
    found = ways(tensor)
    assert found and (way is None or found[0] == way), found
    made = vary(tensor, found[0], torch.Generator().manual_seed(seed))
    assert made.shape == tensor.shape and made.dtype == tensor.dtype and made.stride() == tensor.stride()
    assert not torch.equal(made, tensor)
    assert torch.equal(made, vary(tensor, found[0], torch.Generator().manual_seed(seed)))
    return made


@pytest.mark.parametrize(
    "mask",
    [
        torch.ones(32, 32, dtype=torch.bool).tril(),
        torch.ones(2, 4, 32, 32).tril(),
        torch.zeros(32, 32).masked_fill(torch.ones(32, 32, dtype=torch.bool).triu(1), -INF),
        torch.ones(32, 32, dtype=torch.int64).tril(),
        torch.ones(32, 32, dtype=torch.bool).triu(1),
        torch.ones(16, 32, dtype=torch.bool).tril(16),
    ],
    ids="bool batched infinite integer blocked_future window".split(),
)
def test_causal_masks_stay_causal(mask: torch.Tensor) -> None:
    made = varied(mask, "triangle")
    future = mask.flatten(0, -3)[0] if mask.dim() > 2 else mask
    above = future == future[0, -1]
    assert torch.equal(made[..., above], mask[..., above]), "what is blocked stays blocked"
    edge = mask.shape[-1] - mask.shape[-2]
    assert torch.equal(made.diagonal(edge, -2, -1), mask.diagonal(edge, -2, -1)), "no row is blocked altogether"
    share = float((made != mask).float().mean())
    assert 0.03 < share < 0.3


def test_sorted_integers_keep_ends_and_steps() -> None:
    lengths = torch.tensor([0, 3, 10, 11, 40, 64])
    made = varied(lengths, "steps")
    assert made[0] == 0 and made[-1] == 64 and bool((made.diff() > 0).all())
    assert sorted(made.diff().tolist()) == sorted(lengths.diff().tolist())


def test_permutations_stay_permutations_and_rows_distinct() -> None:
    torch.manual_seed(0)
    made = varied(torch.randperm(64), "shuffle")
    assert torch.equal(made.sort().values, torch.arange(64))
    rows = torch.stack([torch.randperm(16)[:8] for _ in range(4)])
    made = varied(rows, "shuffle_rows")
    assert torch.equal(made.sort(-1).values, rows.sort(-1).values)


def test_integers_stay_in_their_range() -> None:
    labels = torch.arange(100) % 7 + 2
    made = varied(labels[torch.randperm(100, generator=torch.Generator().manual_seed(1))], "range")
    assert int(made.min()) >= 2 and int(made.max()) <= 8


def test_few_values_are_chosen_from_again() -> None:
    hot = torch.nn.functional.one_hot(torch.arange(32) % 10, 10).float()
    made = varied(hot, "shuffle_rows")
    assert torch.equal(made.sum(-1), torch.ones(32)), "still one in each row"


def test_a_table_moves_within_its_range_and_stays_sorted() -> None:
    bins = torch.linspace(-2, 5, 50)
    made = varied(bins, "perturb")
    assert bool((made.diff() >= 0).all()) and float(made.min()) >= -2 and float(made.max()) <= 5
    weights = torch.randn(16, 16, generator=torch.Generator().manual_seed(1)).tril()
    assert torch.equal(varied(weights, "perturb").triu(1), torch.zeros(16, 16))


@pytest.mark.parametrize("value", [0.5, 0.0, -3.0])
def test_one_value_is_varied_a_little(value: float) -> None:
    made = varied(torch.full((64,), value), "scale")
    assert float((made - value).abs().max()) <= (0.2 * abs(value) or 1.0) and torch.isfinite(made).all()
    assert made.unique().numel() > 32


def test_a_mask_of_one_value_gets_some_of_the_other() -> None:
    made = varied(torch.ones(64, 8, dtype=torch.bool), "flip")
    assert 0.02 < float((~made).float().mean()) < 0.3


@pytest.mark.parametrize(
    "tensor", [torch.full((4,), 1), torch.tensor(0), torch.empty(0, 3), torch.full((3,), -INF)], ids=str
)
def test_where_nothing_else_was_observed_there_is_no_way(tensor: torch.Tensor) -> None:
    assert ways(tensor) == []


def test_equal_steps_leave_positions_as_they_are() -> None:
    positions = torch.arange(16)
    assert ways(positions) == ["steps"]
    assert torch.equal(vary(positions, "steps", torch.Generator().manual_seed(0)), positions)


def test_eight_bit_floats_are_varied() -> None:
    made = varied(torch.full((64,), 1.0).to(torch.float8_e4m3fn), "scale")
    assert torch.isfinite(made.float()).all()


def test_lengths_that_are_all_the_same_become_shorter() -> None:
    made = varied(torch.full((64,), 512), "lower")
    assert ways(torch.full((64,), 512)) == ["lower"]
    assert int(made.min()) >= 256 and int(made.max()) <= 512 and made.unique().numel() > 16
