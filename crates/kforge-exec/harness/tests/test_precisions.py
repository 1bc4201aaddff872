"""Rounding to lower precisions, and values that show it."""

from __future__ import annotations

import pytest
import torch

from kforge_harness.trusted.precisions import (
    expected_of,
    has_lower_bits,
    lower_grids,
    one_sided,
    precision_of,
    round_to,
    wide,
)

BITS = {"fp32": 23, "tf32": 10, "bf16": 7, "fp8": 3}


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def in_steps(before: torch.Tensor, after: torch.Tensor, precision: str) -> torch.Tensor:
    """How far rounding went, in steps of the precision at each value; towards zero is positive."""
    exact = before.double()
    step = 2.0 ** (torch.frexp(exact.abs()).exponent.double() - 1 - BITS[precision])
    return (exact.abs() - after.double().abs()) / step


@pytest.mark.parametrize(
    "mul, dtype, lower",
    [
        ("fp32", torch.float32, ["tf32", "bf16", "fp8"]),
        ("tf32", torch.float32, ["bf16", "fp8"]),
        ("bf16", torch.float32, ["fp8"]),
        ("bf16", torch.bfloat16, ["fp8"]),
        ("fp16", torch.float16, ["bf16", "fp8"]),
        ("fp64", torch.float64, ["fp32", "tf32", "bf16", "fp8"]),
    ],
)
def test_every_lower_precision_errs_to_the_same_side(mul: str, dtype: torch.dtype, lower: list[str]) -> None:
    torch.manual_seed(0)
    values = (torch.randn(4096, dtype=torch.float64) * 3).to(dtype)
    made = one_sided(values, mul, True, generator())
    assert made.dtype == dtype and torch.equal(made.sign(), values.sign())
    for precision in lower:
        off = in_steps(made, round_to(made, precision), precision)
        inside = made.double().abs() > 1e-2  # eight bits have no room for smaller values
        assert float(off[inside].min()) > 0.3 and float(off[inside].max()) < 0.5, precision
        if precision == "tf32":
            cut = in_steps(made, round_to(made, "tf32", as_hardware=True), "tf32")
            assert torch.equal(cut, off), "rounding to nearest and cutting off err alike"


def test_errors_add_up_that_average_out_otherwise() -> None:
    torch.manual_seed(1)
    a, b = torch.rand(64, 4096), torch.rand(4096, 64)

    def error(a: torch.Tensor, b: torch.Tensor) -> float:
        exact = a.double() @ b.double()
        rounded = round_to(a, "tf32").double() @ round_to(b, "tf32").double()
        return float((rounded - exact).norm() / exact.norm())

    fine = [one_sided(t, "fp32", True, generator()) for t in (a, b)]
    assert error(a, b) < 1e-5 and error(*fine) > 4e-4


def test_without_depth_values_move_by_no_more_than_a_step_of_the_next_precision() -> None:
    values = torch.randn(1000)
    made = one_sided(values, "fp32", False, generator())
    assert 0 < float(((made - values) / values).abs().max()) < 2.0**-10
    assert lower_grids("fp32", False) == [10] and lower_grids("fp32") == [3, 7, 10] and lower_grids("fp8") == []


def test_zeros_and_what_is_not_finite_stay_and_so_does_the_form() -> None:
    values = torch.randn(64, 32).t().contiguous().t()
    values[0, :4] = torch.tensor([0.0, float("inf"), float("nan"), 1e-45])
    made = one_sided(values, "fp32", True, generator())
    assert made.stride() == values.stride() and torch.equal(made[0, :2], values[0, :2]) and torch.isnan(made[0, 2])
    assert float(made[0, 3]) == float(values[0, 3]) and not torch.equal(made[1], values[1])


def test_there_must_be_bits_to_choose() -> None:
    for dtype, mul in ((torch.float8_e4m3fn, "fp8"), (torch.float32, "fp8"), (torch.bfloat16, "fp32")):
        assert not has_lower_bits(dtype, mul)
    small = torch.randn(8).to(torch.float8_e4m3fn)
    assert one_sided(small, "fp8", True, generator()) is small


def test_eight_bits_are_scaled_as_a_whole() -> None:
    values = torch.tensor([1e-4, 3e-4, 1e-3])
    assert torch.equal(round_to(values * 2.0**20, "fp8"), round_to(values, "fp8") * 2.0**20)
    assert float(((round_to(values, "fp8") - values) / values).abs().max()) < 2.0**-4
    assert torch.equal(round_to(torch.zeros(3), "fp8"), torch.zeros(3)) and round_to(torch.empty(0), "fp8").numel() == 0
    assert float(round_to(torch.tensor([1.0, float("inf")]), "fp8")[1]) == float("inf")


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_eight_bit_floats_have_a_precision_and_are_widened_exactly(dtype: torch.dtype) -> None:
    values = torch.randn(16).to(dtype)
    assert precision_of(dtype) == "fp8" and wide(values).dtype == torch.float32
    assert torch.equal(wide(values).to(dtype).view(torch.uint8), values.view(torch.uint8))
    assert round_to(values, "bf16") is values


def test_products_are_as_fine_as_their_finest_operand_if_a_result_is() -> None:
    half, single = torch.bfloat16, torch.float32
    assert expected_of([half, single], [single]) == "fp32", "the order of inputs decides nothing"
    assert expected_of([half, half], [single]) == "bf16", "a result may be wider"
    assert expected_of([half, single], [half]) == "bf16", "so may be a scale"
    assert expected_of([], [single]) == "fp32" and expected_of([], []) == "fp32"


def test_no_bit_of_a_weight_is_known_beforehand() -> None:
    made = one_sided(torch.rand(1 << 14) + 1, "fp32", True, generator(), even=True)
    off = in_steps(made, round_to(made, "bf16"), "bf16")
    assert 0.1 < float((off < 0).float().mean()) < 0.15, "most err to one side"
    assert float(off.mean()) > 0.1
    low = made.view(torch.int32) & 0xFFFF
    assert len(low.unique()) > 1 << 12, "sixteen bits of it are not a few"
    bits = torch.stack([(made.view(torch.int32) >> bit & 1).float().mean() for bit in range(23)])
    assert float(bits.min()) > 0.05 and float(bits.max()) < 0.95, "each of them may be one or zero"
