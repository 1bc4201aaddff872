"""Seeds, other distributions, and re-drawn weights."""

from __future__ import annotations

import pytest
import torch
from support import drawn
from torch import nn

from kforge_harness.trusted.draw import (
    REDRAWN,
    Plan,
    derive,
    one_sided_weights,
    redraw,
    redraw_weights,
    structured_inputs,
)
from kforge_harness.trusted.precisions import round_to


def test_a_seed_is_stable_and_fits_a_generator() -> None:
    assert derive(b"secret", "inputs-0-0") == derive(b"secret", "inputs-0-0")
    for i in range(200):
        assert 0 <= derive(b"secret", f"inputs-0-{i}") < 2**63
    torch.Generator().manual_seed(derive(b"secret", "x"))


def test_seeds_differ_by_label_and_by_secret() -> None:
    labels = [f"{kind}-{i}" for kind in ("inputs", "weights", "slice") for i in range(100)]
    assert len({derive(secret, label) for secret in (b"one", b"two") for label in labels}) == 600


def flag_of(first: torch.Tensor, second: torch.Tensor) -> bool:
    return structured_inputs(drawn(first), drawn(second))[0]


def one_hot(seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    return nn.functional.one_hot(torch.randint(0, 10, (32,)), 10).float()


@pytest.mark.parametrize(
    "first, second",
    [
        (torch.randint(0, 9, (64,)), torch.randint(0, 9, (64,))),
        (torch.rand(64) > 0.5, torch.rand(64) > 0.5),
        (one_hot(1), one_hot(2)),
        (torch.randn(16, 16).tril(), torch.randn(16, 16).tril()),
        (torch.full((8, 8), 0.5), torch.full((8, 8), 0.5)),
        (torch.full((8, 8), 0.5), torch.full((8, 8), 0.7)),
        (torch.randn(4).float().sign(), torch.randn(4).float().sign()),
        (torch.linspace(0, 1, 50), torch.linspace(0, 1, 50)),
        (torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1) > 0, float("-inf")), torch.randn(4, 4)),
        (torch.tensor([0.3]), torch.tensor([0.4])),
        (torch.empty(0, 4), torch.empty(0, 4)),
    ],
    ids="ints mask one_hot triangular constant changing_constant signs linspace infinite single empty".split(),
)
def test_structured_inputs_are_recognised(first: torch.Tensor, second: torch.Tensor) -> None:
    assert flag_of(first, second) is True


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_plain_random_inputs_are_not_structured(dtype: torch.dtype) -> None:
    assert flag_of(torch.randn(64, 8).to(dtype), torch.randn(64, 8).to(dtype)) is False
    assert flag_of(torch.rand(200).to(dtype), torch.rand(200).to(dtype)) is False


@pytest.mark.parametrize("distribution", REDRAWN)
def test_redrawing_keeps_form_and_structured_inputs(distribution: str) -> None:
    mask = torch.rand(8, 8) > 0.5
    own = drawn(torch.randn(64, 32).t(), mask, torch.rand(16, 4).bfloat16())
    made = redraw(own, Plan([False, True, False]), distribution, seed=3)
    assert made.tensors[1] is mask and made.skeleton == own.skeleton
    for i in (0, 2):
        assert made.tensors[i].dtype == own.tensors[i].dtype
        assert made.tensors[i].stride() == own.tensors[i].stride()
        assert not torch.equal(made.tensors[i], own.tensors[i]) and torch.isfinite(made.tensors[i]).all()
    again = redraw(own, Plan([False, True, False]), distribution, seed=3)
    other = redraw(own, Plan([False, True, False]), distribution, seed=4)
    assert torch.equal(made.tensors[0], again.tensors[0]) and not torch.equal(made.tensors[0], other.tensors[0])


def test_each_distribution_is_what_its_name_says() -> None:
    own = drawn(torch.empty(200, 200))
    values = {name: redraw(own, Plan([False]), name, 1).tensors[0] for name in REDRAWN}
    assert abs(float(values["normal"].mean())) < 0.05 and abs(float(values["normal"].std()) - 1) < 0.05
    assert float(values["uniform"].min()) < -0.99 and 0.99 < float(values["uniform"].max()) <= 1
    assert float(values["heavy"].abs().max()) > 50 and abs(float((values["heavy"] < 0).float().mean()) - 0.5) < 0.05
    assert abs(float((values["zeros"] == 0).float().mean()) - 0.5) < 0.05


@pytest.mark.parametrize("distribution", REDRAWN)
def test_doubles_have_bits_that_floats_do_not(distribution: str) -> None:
    made = redraw(drawn(torch.empty(100, dtype=torch.float64)), Plan([False]), distribution, 1).tensors[0]
    assert made.dtype == torch.float64 and not torch.equal(made.float().double(), made)


class Everything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.linear.bias.data.zero_()
        self.norm = nn.BatchNorm1d(64)
        self.scale = nn.Parameter(torch.tensor(3.0))
        self.register_buffer("mask", torch.ones(8, 8).tril())
        self.table = torch.arange(6.0)
        self.tied = self.linear.weight


def test_weights_move_at_their_own_scale_and_buffers_stay() -> None:
    model = Everything()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    made = redraw_weights(model, 5)
    assert isinstance(made, Everything)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items()), "the original is left alone"
    assert not torch.equal(made.linear.weight, model.linear.weight)
    assert 0.8 < float(made.linear.weight.data.std() / model.linear.weight.data.std()) < 1.25
    assert bool((made.linear.bias != 0).all()), "a bias of zeros would not be missed"
    assert bool((made.norm.weight != 1).all()) and 0.1 < float(made.norm.weight.detach().std()) < 0.5
    assert float(made.scale.detach()) != 3.0
    assert made.norm.running_var is not None and bool((made.norm.running_var > 0).all())
    assert made.norm.running_mean is not None and bool((made.norm.running_mean != 0).all())
    assert torch.equal(made.get_buffer("mask"), model.get_buffer("mask"))
    assert torch.equal(made.table, model.table)
    assert made.tied is made.linear.weight


def test_weights_follow_the_seed_and_keep_their_dtype() -> None:
    model = nn.Linear(8, 8).bfloat16()
    first, again, other = (redraw_weights(model, seed).get_parameter("weight") for seed in (1, 1, 2))
    assert first.dtype == torch.bfloat16 and torch.equal(first, again) and not torch.equal(first, other)


def test_pieces_that_are_drawn_one_after_the_other_do_not_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    own = drawn(torch.randn(5, 7, 11).permute(2, 0, 1), torch.randn(100).bfloat16(), torch.randn(64).double())
    for distribution in REDRAWN:
        whole = redraw(own, Plan([False] * 3), distribution, 7)
        monkeypatch.setattr("kforge_harness.trusted.draw._PIECE", 50)
        pieces = redraw(own, Plan([False] * 3), distribution, 7)
        monkeypatch.undo()
        for like, one, other in zip(own.tensors, whole.tensors, pieces.tensors, strict=True):
            assert other.stride() == like.stride() and other.dtype == like.dtype and other.shape == one.shape
        flat = pieces.tensors[2]
        assert flat[flat != 0].unique().numel() == int((flat != 0).sum())
        sizes = [made.tensors[0].abs().median() for made in (pieces, whole)]
        assert distribution == "zeros" or 0.7 < float(sizes[0] / sizes[1]) < 1.4
        assert distribution != "zeros" or 0.3 < float((pieces.tensors[0] == 0).float().mean()) < 0.7


def test_fine_values_are_the_own_ones_with_other_lower_bits() -> None:
    own = drawn(torch.rand(64, 64), torch.randint(0, 9, (4,)), torch.full((3,), 0.5))
    made = redraw(own, Plan([False, True, True], [True, False, False]), "fine", 1)
    assert made.tensors[1] is own.tensors[1] and made.tensors[2] is own.tensors[2]
    ratio = made.tensors[0] / own.tensors[0]
    assert bool((made.tensors[0] >= 0).all()) and float(ratio.min()) > 0.85 and float(ratio.max()) < 1.15
    assert bool((round_to(made.tensors[0], "tf32") <= made.tensors[0]).all())
    assert not torch.equal(made.tensors[0], redraw(own, Plan([False] * 3, [True] * 3), "fine", 2).tensors[0])


@pytest.mark.parametrize("shape", [(64, 96), (200,), (3, 8, 16, 5), (2, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float8_e4m3fn])
def test_scaled_values_are_the_own_ones_times_powers_of_two_in_blocks(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    torch.manual_seed(4)
    own = drawn((torch.rand(shape) + 0.5).to(dtype))
    made = redraw(own, Plan([False], scalable=[True], span=(-4, 4)), "scaled", 1).tensors[0]
    assert made.dtype == dtype and made.shape == shape
    powers = torch.log2(made.float() / own.tensors[0].float())
    if dtype != torch.float8_e4m3fn:
        assert torch.equal(powers, powers.round())
    if max(shape) < 4:
        assert torch.equal(made, own.tensors[0])
        return
    assert float(powers.min()) <= -2 and float(powers.max()) >= 2 and float(powers.abs().max()) <= 4.5
    if shape[-1] > 60:
        assert float((powers.diff(dim=-1) != 0).float().mean()) < 0.2, "blocks, not single elements"


def test_one_draw_of_scaled_values_is_as_hard_as_another() -> None:
    own = drawn(torch.ones(512, 512))
    sizes = [float(redraw(own, Plan([False], scalable=[True]), "scaled", seed).tensors[0].norm()) for seed in range(20)]
    assert max(sizes) < 2.5 * min(sizes)


def test_weights_show_lower_precision_on_every_input() -> None:
    model = redraw_weights(nn.Linear(256, 64), 1)
    x = torch.rand(2048, 256).double()
    weight = model.get_parameter("weight").data.double().clone()

    def error(weight: torch.Tensor) -> float:
        mean, off = (x @ weight.t()).mean(0), (x @ round_to(weight.float(), "tf32").double().t()).mean(0)
        return float((off - mean).norm() / mean.norm())

    before = error(weight)
    one_sided_weights(model, "fp32", 2, {"weight": "free"})
    weight = model.get_parameter("weight").data.double()
    down = (round_to(weight.float(), "tf32").double().abs() <= weight.abs()).float().mean()
    assert 0.8 < float(down) < 0.95, "most err to one side, and of none is it known"
    assert error(weight) > 1.2 * before


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_eight_bit_floats_are_drawn(dtype: torch.dtype) -> None:
    own = drawn(torch.randn(64, 64).to(dtype))
    assert structured_inputs(own, drawn(torch.randn(64, 64).to(dtype))) == [False]
    for distribution in (*REDRAWN, "scaled", "fine"):
        made = redraw(own, Plan([False], [True], [True], mul="fp8"), distribution, 1).tensors[0]
        assert made.dtype == dtype and torch.isfinite(made.float()).all(), distribution
    model = nn.Module()
    model.w = nn.Parameter(own.tensors[0], requires_grad=False)
    other = redraw_weights(model, 1).get_parameter("w")
    assert other.dtype == dtype and not torch.equal(other.float(), own.tensors[0].float())


def test_some_rows_are_zero_throughout_where_half_of_the_values_are() -> None:
    own = drawn(torch.randn(64, 32), torch.randn(4, 32))
    made = redraw(own, Plan([False, False]), "zeros", 1).tensors
    assert 1 <= int((made[0] == 0).all(-1).sum()) < 16 and not bool((made[1] == 0).all(-1).any()), (
        "too few to leave out one"
    )
    kept = redraw(own, Plan([False, False], rows=False), "zeros", 1).tensors[0]
    assert not bool((kept == 0).all(-1).any())


def test_a_patch_stands_out_and_zeros_stay() -> None:
    x = torch.randn(64, 64).tril()
    for seed in range(8):
        (made,) = redraw(drawn(x), Plan([True], [True], [True]), "patched", seed).tensors
        moved = made != x
        assert bool(moved.any()) and float(moved.float().mean()) < 0.3 and bool((made.triu(1) == 0).all())
