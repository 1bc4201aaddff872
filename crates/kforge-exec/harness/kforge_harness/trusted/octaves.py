"""How far the elements of an output are off, each next to its own size, told apart by their magnitude.

An rms over all elements is made up by the largest of them, and says nothing of the others. Here the errors of all elements
between two powers of two are put together. Each counts by the root of its error over its size: an element that all but
cancels is far off next to its size in honest results too, and must not make up the whole.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from .precisions import wide

FEWEST = 256  # elements between two powers of two, else nothing is said of them
_SAMPLE = 1 << 18  # elements of an output that are looked at, of larger ones
_SPAN = 1100  # powers of two of doubles, rounded up
_LARGEST = 1e6  # times its own size that an element counts as off


@dataclass(frozen=True)
class Octave:
    """Of the elements between two powers of two."""

    count: int
    error: float  # relative


def octaves(got: torch.Tensor, true: torch.Tensor) -> dict[int, Octave]:
    """By the exponent of the truth; of large outputs a sample that nobody knows beforehand."""
    count = true.numel()
    if count < FEWEST:
        return {}
    mine, exact = got.reshape(-1), true.reshape(-1)
    if count > 2 * _SAMPLE:
        chance = torch.Generator(true.device).manual_seed(int.from_bytes(os.urandom(7), "little"))
        places = torch.randint(count, (_SAMPLE,), generator=chance, device=true.device)
        mine, exact = mine[places], exact[places]
    mine, exact = wide(mine).double(), wide(exact).double()
    size = exact.abs()
    off = (mine - exact).abs_()
    counts = torch.isfinite(off) & (size > 0) & torch.isfinite(size)
    if not bool(counts.any()):
        return {}
    size, off = size[counts], off[counts]
    exponents = (torch.frexp(size).exponent.long() + _SPAN).clamp_(0, 2 * _SPAN - 1)
    roots = off.div_(size).clamp_(max=_LARGEST).sqrt_()
    low = int(exponents.min())
    exponents -= low
    numbers = torch.bincount(exponents).tolist()
    sums = torch.bincount(exponents, weights=roots).tolist()
    return {
        place + low - _SPAN: Octave(int(number), (total / number) ** 2)
        for place, (number, total) in enumerate(zip(numbers, sums, strict=True))
        if number >= FEWEST
    }
