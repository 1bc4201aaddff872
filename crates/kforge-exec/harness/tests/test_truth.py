"""Rounding, the length of reductions, and what an honest kernel may be off by."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support import drawn
from torch import nn

from kforge_harness.compare import compare
from kforge_harness.errors import error_of, rms_of, worst_of
from kforge_harness.problem import Drawn
from kforge_harness.truth import (
    SEPARATION,
    TAU,
    Band,
    ReductionMeter,
    bands,
    on_this_set,
    round_to,
    truth,
)  # fmt: skip

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


def linear(x: torch.Tensor) -> torch.Tensor:
    return F.linear(x, torch.ones(5, x.shape[-1]), torch.ones(5))


X = torch.randn(4, 8, 16)
IMAGE = torch.randn(2, 6, 8, 8)
REDUCTIONS: dict[str, tuple[Callable[[], Any], int]] = {
    "mm": (lambda: torch.randn(3, 50) @ torch.randn(50, 4), 50),
    "bmm": (lambda: torch.bmm(X, X.transpose(1, 2)), 16),
    "matmul": (lambda: X @ torch.randn(16, 3), 16),
    "mv": (lambda: torch.randn(3, 50) @ torch.randn(50), 50),
    "addmm": (lambda: torch.addmm(torch.zeros(4), torch.randn(3, 50), torch.randn(50, 4)), 50),
    "linear": (lambda: linear(X), 16),
    "einsum": (lambda: torch.einsum("bij,bkj->bik", X, X), 16),
    "tensordot": (lambda: torch.tensordot(X, X, dims=([1], [1])), 8),
    "conv2d": (lambda: F.conv2d(IMAGE, torch.randn(4, 6, 3, 3)), 54),
    "depthwise": (lambda: F.conv2d(IMAGE, torch.randn(6, 1, 3, 3), groups=6), 9),
    "conv1d": (lambda: F.conv1d(X, torch.randn(4, 8, 5)), 40),
    "transposed": (lambda: F.conv_transpose2d(IMAGE, torch.randn(6, 2, 3, 3)), 54),
    "transposed_groups": (lambda: F.conv_transpose2d(IMAGE, torch.randn(6, 2, 3, 3), groups=3), 18),
    "softmax": (lambda: torch.softmax(X, 1), 8),
    "log_softmax": (lambda: F.log_softmax(X, dim=-1), 16),
    "layer_norm": (lambda: F.layer_norm(X, (16,)), 16),
    "rms_norm": (lambda: F.rms_norm(X, (16,)), 16),
    "group_norm": (lambda: F.group_norm(X, 4), 32),
    "batch_norm": (lambda: F.batch_norm(X, torch.zeros(8), torch.ones(8)), 64),
    "instance_norm": (lambda: F.instance_norm(X), 16),
    "vector_norm": (lambda: torch.linalg.vector_norm(X, dim=-1), 16),
    "sum": (lambda: X.sum(), 512),
    "sum_dim": (lambda: X.sum(1), 8),
    "mean_all": (lambda: X.mean(), 512),
    "variance": (lambda: torch.var_mean(X, -1), 16),
    "cumsum": (lambda: torch.cumsum(X, -1), 16),
    "logsumexp": (lambda: torch.logsumexp(X, -1), 16),
    "average_pool": (lambda: F.avg_pool2d(IMAGE, 4), 16),
    "attention": (lambda: F.scaled_dot_product_attention(torch.randn(1, 2, 40, 16), *[torch.randn(1, 2, 40, 16)] * 2), 40),
    "lstm": (lambda: nn.LSTM(16, 32, batch_first=True)(X), 32),
    "elementwise": (lambda: torch.tanh(X) * 2 + X, 1),
    "selection": (lambda: X[:, -1, ::2], 1),
    "embedding": (lambda: F.embedding(torch.tensor([1, 2]), torch.ones(1000, 4)), 1),
    "maximum": (lambda: (X.amax(-1), X.max(1), X.argmax(-1)), 1),
}  # fmt: skip


@pytest.mark.parametrize("inference", [True, False], ids=["inference", "ordinary"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_the_longest_reduction_is_found(name: str, inference: bool) -> None:
    action, expected = REDUCTIONS[name]
    with torch.inference_mode(inference), ReductionMeter() as meter:
        action()
    assert meter.longest == expected


def test_the_longest_of_several_counts() -> None:
    with torch.inference_mode(), ReductionMeter() as meter:
        torch.softmax(torch.randn(3, 50) @ torch.randn(50, 4), -1).sum()
    assert meter.longest == 50


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
    exact, _sources, doubled = truth(Product(), inputs)
    made = bands(Product(), inputs, exact, STRICT, K, doubled)[0]
    assert made is not None and doubled
    return inputs, exact[0], made


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
    assert band.rms_limit == pytest.approx(math.sqrt(band.e_hi * band.e_lo))


def test_an_exact_operation_does_not_separate() -> None:
    inputs = drawn(torch.randn(64, 8).sign())
    exact, _sources, doubled = truth(nn.ReLU(), inputs)
    (band,) = bands(nn.ReLU(), inputs, exact, STRICT, 1, doubled)
    assert band is not None and not band.separated and band.rms_limit == SEPARATION * band.e_hi


def test_a_tf32_contract_lets_tf32_pass_and_bf16_fail() -> None:
    torch.manual_seed(2)
    inputs = drawn(torch.randn(32, 512), torch.randn(512, 32))
    exact, _sources, doubled = truth(Product(), inputs)
    (band,) = bands(Product(), inputs, exact, {**STRICT, "mul": "tf32"}, 512, doubled)
    for precision, kind in (("tf32", ""), ("bf16", "precision")):
        a, b = (round_to(t, precision) for t in inputs.tensors)
        assert compare(a @ b, exact[0], band, None, "output", "tf32").kind == kind


def test_fast_math_is_wider() -> None:
    inputs = drawn(torch.randn(64, 64))
    exact, _sources, doubled = truth(nn.Softmax(-1), inputs)
    (strict,) = bands(nn.Softmax(-1), inputs, exact, STRICT, 64, doubled)
    (fast,) = bands(nn.Softmax(-1), inputs, exact, {**STRICT, "math": "fast"}, 64, doubled)
    assert strict is not None and fast is not None and fast.tau >= 7 * strict.tau and fast.e_hi > strict.e_hi


def test_a_double_problem_refuses_single_precision() -> None:
    torch.manual_seed(3)
    inputs = drawn(torch.randn(32, 64, dtype=torch.float64), torch.randn(64, 32, dtype=torch.float64))
    exact, _sources, doubled = truth(Product(), inputs)
    (band,) = bands(Product(), inputs, exact, {**STRICT, "mul": "fp64", "acc": "fp64"}, 64, doubled)
    assert band is not None and band.separated and band.tau == TAU["fp64"]
    a, b = inputs.tensors
    assert compare(a @ b, exact[0], band, None, "output", "fp64").kind == ""
    assert compare((a.float() @ b.float()).double(), exact[0], band, None, "output", "fp64").kind == "precision"


def test_integer_outputs_have_no_band() -> None:
    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.max(-1).values * 2, x.argmax(-1)

    inputs = drawn(torch.randn(4, 8))
    exact, sources, doubled = truth(Both(), inputs)
    made = bands(Both(), inputs, exact, STRICT, 1, doubled)
    assert made[0] is not None and made[1] is None
    assert set(sources) == {1} and sources[1].dim == -1 and sources[1].sign == 1


def test_a_model_that_cannot_run_in_double_is_judged_natively_with_a_wider_band() -> None:
    class SingleOnly(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.dtype != torch.float32:
                raise TypeError("float32 only")
            return torch.softmax(x, -1)

    inputs = drawn(torch.randn(16, 16))
    exact, _sources, doubled = truth(SingleOnly(), inputs)
    assert not doubled and exact[0].dtype == torch.float64
    (band,) = bands(SingleOnly(), inputs, exact, STRICT, 16, doubled)
    assert band is not None and band.tau >= 4 * TAU["fp32"]


class Cancelling(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * b + a


def test_a_difference_that_all_but_cancels_is_not_held_to_more_than_eager_gives() -> None:
    torch.manual_seed(0)
    usual = drawn(torch.tensor(0.7312345), torch.tensor(0.4198765))
    exact, _sources, doubled = truth(Cancelling(), usual)
    made = bands(Cancelling(), usual, exact, STRICT, 1, doubled)
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
    exact, _sources, doubled = truth(Cancelling(), inputs)
    made = bands(Cancelling(), inputs, exact, STRICT, 1, doubled)
    assert on_this_set(made, Cancelling(), inputs, exact) is made
