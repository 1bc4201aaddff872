"""Rounding, the length of reductions, and what an honest kernel may be off by."""

from __future__ import annotations

import math

import pytest
import torch
from support import drawn
from torch import nn

from kforge_harness.trusted.compare import compare
from kforge_harness.trusted.errors import error_of, rms_of, worst_of
from kforge_harness.trusted.precisions import TAU, round_to
from kforge_harness.trusted.problem import Drawn
from kforge_harness.trusted.truth import (
    SEPARATION,
    WIDE,
    Band,
    Measured,
    Measurement,
    bands,
    limits,
    on_this_set,
    truth,
)

STRICT = {"mul": "fp32", "acc": "fp32", "math": "exact"}


@pytest.mark.parametrize(
    "precision, value, expected",
    [
        ("tf32", 1 + 2**-10, 1 + 2**-10),
        ("tf32", 1 + 2**-12, 1.0),
        ("tf32", 1 + 3 * 2**-12, 1 + 2**-10),
        ("tf32", -(1 + 3 * 2**-12), -(1 + 2**-10)),
        ("tf32", float("inf"), float("inf")),
        ("bf16", 1 + 2**-7, 1 + 2**-7),
        ("bf16", 1 + 2**-9, 1.0),
        ("bf16", 3.0e38, 3.0042e38),
        ("fp16", 1 + 2**-10, 1 + 2**-10),
        ("fp16", 1 + 2**-12, 1.0),
        ("fp16", 1e-8, 0.0),
        ("fp8", 1.0625, 1.0),
        ("fp8", 1.125, 1.125),
        ("fp8", 17.0, 16.0),
        ("fp64", 1 + 2**-20, 1 + 2**-20),
    ],
)
def test_rounding_to_a_precision(precision: str, value: float, expected: float) -> None:
    made = round_to(torch.tensor([value]), precision)
    assert made.dtype == torch.float32
    assert float(made) == pytest.approx(expected, rel=1e-4 if value > 1e38 and value != float("inf") else 0)


def test_rounding_keeps_dtype_and_form_and_leaves_nan() -> None:
    x = torch.randn(6, 4, dtype=torch.float64).t()
    for precision in ("tf32", "bf16", "fp16", "fp8", "fp32"):
        made = round_to(x, precision)
        assert made.dtype == torch.float64 and made.shape == x.shape
        assert 0 < float((made - x).abs().max()) < 0.3
    assert torch.isnan(round_to(torch.tensor([float("nan")]), "tf32")).all()


def test_errors_ignore_what_is_not_finite_and_survive_emptiness() -> None:
    true = torch.tensor([3.0, 4.0, float("inf")]).double()
    got = torch.tensor([3.0, 5.0, float("inf")])
    assert rms_of(true) == pytest.approx(math.sqrt(12.5))
    assert error_of(got, true) == pytest.approx(math.sqrt(0.5))
    assert worst_of(got, true, 1.0) == pytest.approx(1 / (4 + math.sqrt(12.5)))
    empty = torch.empty(0)
    assert rms_of(empty) == error_of(empty, empty) == worst_of(empty, empty, 1.0) == 0.0


def test_errors_too_large_to_square_are_infinite() -> None:
    true = torch.zeros(3, dtype=torch.float64)
    got = torch.tensor([1e200, -1e200, 1.0], dtype=torch.float64)
    assert error_of(got, true) == math.inf
    assert worst_of(got, true, 1.0) > 1e200
    assert error_of(true, true) == 0.0


class Product(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


K = 8192


def product_case(kind: str) -> tuple[Drawn, torch.Tensor, Band]:
    torch.manual_seed(1)
    draw = torch.randn if kind == "normal" else torch.rand
    inputs = drawn(draw(16, K), draw(K, 16))
    exactly = truth(Product(), inputs)
    made = bands(Product(), inputs, exactly, STRICT, [K])[0]
    assert made is not None and exactly[2]
    return inputs, exactly[0][0], made


def sequential(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        total += a[:, k, None] * b[None, k]
    return total


@pytest.mark.parametrize("kind", ["normal", "unit"])
def test_honest_sequential_accumulation_passes(kind: str) -> None:
    inputs, exact, band = product_case(kind)
    assert compare(sequential(*inputs.tensors), exact, band, None, "output", "fp32").kind == ""


@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp16"])
def test_lower_multiply_precision_fails_on_normal_inputs(precision: str) -> None:
    inputs, exact, band = product_case("normal")
    a, b = (round_to(t, precision).double() for t in inputs.tensors)
    assert compare((a @ b).float(), exact, band, None, "output", "fp32").kind == "precision"


def test_bf16_fails_on_unit_inputs_too() -> None:
    inputs, exact, band = product_case("unit")
    a, b = (t.bfloat16() for t in inputs.tensors)
    assert compare((a @ b).float(), exact, band, None, "output", "fp32").kind != ""


def test_precisions_are_separated_on_normal_inputs() -> None:
    _inputs, _exact, band = product_case("normal")
    assert band.separated and band.e_lo > SEPARATION * band.e_hi
    assert band.e_hi < band.rms_limit < band.e_lo
    assert band.rms_limit == pytest.approx(band.e_hi * (band.e_lo / band.e_hi) ** (1 / 3))


def test_an_exact_operation_does_not_separate() -> None:
    inputs = drawn(torch.randn(64, 8).sign())
    exactly = truth(nn.ReLU(), inputs)
    (band,) = bands(nn.ReLU(), inputs, exactly, STRICT, [1], multiplied=[False])
    assert band is not None and not band.separated and band.rms_limit == SEPARATION * band.e_hi


def test_a_tf32_contract_lets_tf32_pass_and_bf16_fail() -> None:
    torch.manual_seed(2)
    inputs = drawn(torch.randn(32, 512), torch.randn(512, 32))
    exactly = truth(Product(), inputs)
    (band,) = bands(Product(), inputs, exactly, {**STRICT, "mul": "tf32"}, [512])
    for precision, kind in (("tf32", ""), ("bf16", "precision")):
        a, b = (round_to(t, precision) for t in inputs.tensors)
        assert compare(a @ b, exactly[0][0], band, None, "output", "tf32").kind == kind


def test_fast_math_is_wider() -> None:
    inputs = drawn(torch.randn(64, 64))
    exactly = truth(nn.Softmax(-1), inputs)
    (strict,) = bands(nn.Softmax(-1), inputs, exactly, STRICT, [64], multiplied=[False])
    (fast,) = bands(nn.Softmax(-1), inputs, exactly, {**STRICT, "math": "fast"}, [64], multiplied=[False])
    assert strict is not None and fast is not None and fast.tau >= strict.tau and fast.e_hi >= 7 * strict.e_hi


def test_a_double_problem_refuses_single_precision() -> None:
    torch.manual_seed(3)
    inputs = drawn(torch.randn(32, 64, dtype=torch.float64), torch.randn(64, 32, dtype=torch.float64))
    exactly = truth(Product(), inputs)
    (band,) = bands(Product(), inputs, exactly, {**STRICT, "mul": "fp64", "acc": "fp64"}, [64])
    assert band is not None and band.separated and band.tau == WIDE * TAU["fp64"]
    a, b = inputs.tensors
    assert compare(a @ b, exactly[0][0], band, None, "output", "fp64").kind == ""
    assert compare((a.float() @ b.float()).double(), exactly[0][0], band, None, "output", "fp64").kind == "precision"


def test_integer_outputs_have_no_band() -> None:
    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.max(-1).values * 2, x.argmax(-1)

    inputs = drawn(torch.randn(4, 8))
    exactly = truth(Both(), inputs)
    sources = exactly[1]
    made = bands(Both(), inputs, exactly, STRICT, [1, 1])
    assert made[0] is not None and made[1] is None
    assert set(sources) == {1} and sources[1].dim == -1 and not sources[1].distinct


def test_a_model_that_cannot_run_in_double_is_judged_natively_with_a_wider_band() -> None:
    class SingleOnly(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.dtype != torch.float32:
                raise TypeError("float32 only")
            return torch.softmax(x, -1)

    inputs = drawn(torch.randn(16, 16))
    exactly = truth(SingleOnly(), inputs)
    assert not exactly[2] and exactly[0][0].dtype == torch.float64
    (band,) = bands(SingleOnly(), inputs, exactly, STRICT, [16])
    assert band is not None and band.tau >= 4 * TAU["fp32"]


class Cancelling(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * b + a


def test_a_difference_that_all_but_cancels_is_not_held_to_more_than_eager_gives() -> None:
    torch.manual_seed(0)
    usual = drawn(torch.tensor(0.7312345), torch.tensor(0.4198765))
    exactly = truth(Cancelling(), usual)
    made = bands(Cancelling(), usual, exactly, STRICT, [1])
    refused = let_through = 0
    for _ in range(200):
        pair = drawn(torch.randn(()), -1 + 0.01 * torch.randn(()))
        (true,), _sources, _doubled = truth(Cancelling(), pair)
        (band,) = on_this_set(made, Cancelling(), pair, [true])
        assert band is not None and made[0] is not None and band.rms_limit >= made[0].rms_limit
        eager = Cancelling()(*pair.tensors)
        assert compare(eager, true, band, None, "output", "fp32").kind == ""
        refused += compare(eager, true, made[0], None, "output", "fp32").kind != ""
        lower = Cancelling()(*(round_to(t, "tf32") for t in pair.tensors))
        let_through += compare(lower, true, band, None, "output", "fp32").kind == ""
    assert refused > 50, "with the distribution's band"
    assert let_through < 10, "products in TF32"


def test_outputs_of_many_elements_have_the_band_of_their_distribution() -> None:
    inputs = drawn(torch.randn(100), torch.randn(100))
    exactly = truth(Cancelling(), inputs)
    made = bands(Cancelling(), inputs, exactly, STRICT, [1])
    assert on_this_set(made, Cancelling(), inputs, exactly[0]) is made


class Centred(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean()


def test_a_long_reduction_is_no_excuse_without_end() -> None:
    torch.manual_seed(5)
    inputs = drawn(torch.randn(1 << 22))
    exactly = truth(Centred(), inputs)
    (band,) = bands(Centred(), inputs, exactly, STRICT, [1 << 22])
    assert band is not None and band.scale == 8.0 and band.e_hi < 3e-6
    (x,) = inputs.tensors
    assert compare(x - x.mean(), exactly[0][0], band, None, "output", "fp32").kind == ""
    assert compare(x, exactly[0][0], band, None, "output", "fp32").kind != "", "the mean was left out"


def test_an_output_in_sixteen_bits_is_rounded_once_however_long_its_sums() -> None:
    torch.manual_seed(6)
    inputs = drawn(torch.randn(8, 8192).bfloat16())
    exactly = truth(nn.Softmax(-1), inputs)
    (band,) = bands(nn.Softmax(-1), inputs, exactly, {**STRICT, "mul": "bf16"}, [8192])
    assert band is not None and band.e_hi < 2.0**-8
    coarse = (exactly[0][0] * (1 + 0.1 * torch.randn(8, 8192))).bfloat16()
    assert compare(coarse, exactly[0][0], band, None, "output", "bf16").kind != ""


def test_single_elements_may_be_further_off_where_the_rms_tells_precisions_apart() -> None:
    torch.manual_seed(7)
    inputs = drawn(torch.randn(256, 512), torch.randn(512, 256))
    exactly = truth(Product(), inputs)
    exact = exactly[0][0]
    (band,) = bands(Product(), inputs, exactly, STRICT, [512])
    assert band is not None and band.separated and band.tau == WIDE * TAU["fp32"]
    got = exact.float()
    got[3, 4] += 3 * TAU["fp32"] * (abs(float(got[3, 4])) + rms_of(exact) * band.scale)
    assert compare(got, exact, band, None, "output", "fp32").kind == ""
    flat = drawn(torch.randn(64, 8).sign())
    exactly = truth(nn.ReLU(), flat)
    (narrow,) = bands(nn.ReLU(), flat, exactly, STRICT, [1])
    assert narrow is not None and not narrow.separated and narrow.tau == TAU["fp32"]


def test_the_worst_of_several_sets_counts() -> None:
    def made(contract: float, worst: float, lower: float) -> Measurement:
        return Measurement([Measured(torch.float32, False, 1e-7, 1e-6, contract, worst, lower)], False)

    sets = [made(1e-4, 1e-4, 9e-3), made(2e-4, 5e-4, 7e-3)]
    ((band,), beyond) = limits(sets, {**STRICT, "mul": "tf32"}, [1], True)
    assert band is not None and (band.e_hi, band.e_lo) == (2e-4, 7e-3) and band.separated and beyond <= 1
    ((_band,), beyond) = limits([*sets, made(2e-4, 5e-3, 7e-3)], {**STRICT, "mul": "tf32"}, [1], True)
    assert _band is not None and beyond > 1 and _band.tau == 4 * 5e-3, "single elements take up the band"
    (_bands, beyond) = limits([*sets, made(1e-3, 5e-4, 7e-3)], {**STRICT, "mul": "tf32"}, [1], True)
    assert beyond > 1, "one set in three is off ten times as far as another"


def test_the_smallest_float_of_a_mask_is_that_of_the_problem_s_own_dtype() -> None:
    class Masked(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.masked_fill(x < 0, torch.finfo(x.dtype).min)

    for dtype in (torch.float32, torch.bfloat16):
        x = torch.tensor([-1.0, 2.0], dtype=dtype)
        assert truth(Masked(), drawn(x))[0][0].tolist() == [torch.finfo(dtype).min, 2.0]
    assert torch.finfo(torch.float64).min < -1e308, "put back"
