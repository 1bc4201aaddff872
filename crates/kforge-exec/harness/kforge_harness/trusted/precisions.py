"""Precisions of numbers: how finely each divides them, how values are rounded to it, and values that show such rounding."""

from __future__ import annotations

import torch

UNIT = {"fp64": 2.0**-53, "fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8, "fp8": 2.0**-4}
TAU = {"fp64": 1e-12, "fp32": 2e-5, "tf32": 4e-3, "fp16": 4e-3, "bf16": 3e-2, "fp8": 0.25}
LOWER = {"fp64": "fp32", "fp32": "tf32", "tf32": "bf16", "fp16": "bf16", "bf16": "fp8", "fp8": "fp8"}
_MANTISSA = {"fp64": 52, "fp32": 23, "tf32": 10, "fp16": 10, "bf16": 7, "fp8": 3}
_OF_DTYPE = {torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
_INTEGER = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}
_FLOAT8 = frozenset(getattr(torch, name) for name in dir(torch) if name.startswith("float8_"))
_LARGEST_FP8 = 448.0
# Of a step of the lower precision.
_LEAST, _MOST = 0.40, 0.49
_ORDINARY = 0.25  # of the elements of a weight, whose lower bits are as likely to be anything
_PIECE = 1 << 22  # elements whose random bits are drawn at once


def is_float8(dtype: torch.dtype) -> bool:
    return dtype in _FLOAT8


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """Eight-bit floats as single precision, which is exact: most operators are not made for them."""
    return tensor.float() if tensor.dtype in _FLOAT8 else tensor


def precision_of(dtype: torch.dtype) -> str:
    return "fp8" if dtype in _FLOAT8 else _OF_DTYPE.get(dtype, "fp32")


def usual_tolerance(mul: str, dtype: torch.dtype) -> float:
    """Of one element of an output, where neither fast mathematics nor an imprecise reference asks for more."""
    io = precision_of(dtype)
    return TAU["fp64"] if io == "fp64" else max(TAU[mul], TAU[io])


def round_to(tensor: torch.Tensor, precision: str, as_hardware: bool = False) -> torch.Tensor:
    """The nearest values of a lower precision, in the tensor's own dtype.

    Tensor cores do not round to TF32, they leave the lower bits out: what a contract allows is what hardware does.
    """
    if tensor.dtype in _FLOAT8:
        return tensor
    if precision == "fp8":
        return _to_fp8(tensor)
    through = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    if precision in through:
        return tensor.to(through[precision]).to(tensor.dtype)
    if precision == "tf32":
        bits = tensor.float().contiguous().view(torch.int32)
        return ((bits + (0 if as_hardware else 0x1000)) & ~0x1FFF).view(torch.float32).to(tensor.dtype)
    return tensor


def _to_fp8(tensor: torch.Tensor) -> torch.Tensor:
    """With the largest value at the upper end of the range, as whoever uses eight bits scales: by a power of two."""
    if tensor.numel() == 0:
        return tensor
    largest = float(torch.nan_to_num(tensor.abs().float(), 0.0, 0.0).amax())
    if largest == 0.0:
        return tensor
    shift = int(torch.tensor(_LARGEST_FP8 / largest).log2().floor())
    scaled = torch.ldexp(tensor.float(), torch.tensor(shift, device=tensor.device))
    small = scaled.clamp(-_LARGEST_FP8, _LARGEST_FP8).to(torch.float8_e4m3fn).float()
    made = torch.ldexp(small, torch.tensor(-shift, device=tensor.device))
    return torch.where(torch.isfinite(tensor), made.to(tensor.dtype), tensor)


def lower_grids(mul: str, deep: bool = True) -> list[int]:
    """Mantissa bits of the precisions below `mul`, coarse ones first; without `deep` of the next lower one only."""
    grids: list[int] = []
    while LOWER[mul] != mul and (deep or not grids):
        mul = LOWER[mul]
        grids.insert(0, _MANTISSA[mul])
    return grids


def has_lower_bits(dtype: torch.dtype, mul: str) -> bool:
    """Whether the next lower precision leaves out bits of such values."""
    return (
        dtype in _INTEGER and bool(grids := lower_grids(mul, False)) and grids[0] <= _MANTISSA[precision_of(dtype)] - 2
    )


def one_sided(
    tensor: torch.Tensor, mul: str, deep: bool, generator: torch.Generator, even: bool = False
) -> torch.Tensor:
    """The same values with lower mantissa bits such that every lower precision, rounding or cutting off, errs towards zero
    by somewhat less than half a step: then errors add up that would average out. With `even`, for weights, some keep the
    bits that they have: what is known of all of them could be left out and put back."""
    if not has_lower_bits(tensor.dtype, mul) or tensor.numel() == 0:
        return tensor
    mantissa = _MANTISSA[precision_of(tensor.dtype)]
    grids = [grid for grid in lower_grids(mul, deep) if grid <= mantissa - 2]
    made = tensor.clone(memory_format=torch.preserve_format)
    integer = _INTEGER[tensor.dtype]
    tiny = torch.finfo(tensor.dtype).tiny
    for piece in made.as_strided((made.numel(),), (1,)).split(_PIECE):
        bits = piece.view(integer)
        fresh = bits.bitwise_and(-1 << (mantissa - grids[0]))
        for grid, finer in zip(grids, [*grids[1:], mantissa], strict=True):
            width = finer - grid
            fresh += _below_half(width, finer == mantissa, even, bits, generator) << (mantissa - finer)
        magnitude = piece.abs()
        kept = (magnitude < tiny) | ~torch.isfinite(magnitude)
        if even:
            kept |= torch.rand(bits.shape, generator=generator, device=bits.device) < _ORDINARY
        bits.copy_(torch.where(kept, bits, fresh))
    return made


def _below_half(width: int, last: bool, even: bool, like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Values of so many bits, each below half of their range, what lies below adding less than one: rounding to nearest errs
    to the same side as cutting off. Somewhat below, so that it errs by much; or evenly, all of them as likely."""
    most = 2 ** (width - 1) - 1
    if even:
        least = 0
    elif last:
        most = int(_MOST * 2**width)
        least = min(int(_LEAST * 2**width) + 1, most)
    else:
        least = most - 1 if width >= 4 else most
    return torch.randint(least, most + 1, like.shape, generator=generator, dtype=like.dtype, device=like.device)


def expected_of(operands: list[torch.dtype], results: list[torch.dtype]) -> str:
    """The precision of products where nobody names one: as fine as the finest operand, if a result is as fine."""

    def finest(dtypes: list[torch.dtype]) -> str:
        return max((precision_of(dtype) for dtype in dtypes), key=lambda name: _MANTISSA[name])

    found = [finest(dtypes) for dtypes in (operands, results) if dtypes]
    return min(found, key=lambda name: _MANTISSA[name]) if found else "fp32"
