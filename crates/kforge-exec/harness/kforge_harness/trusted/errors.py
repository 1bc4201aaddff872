"""How far a tensor is from the truth: over the finite elements, in double precision.

Nearly every tensor is finite throughout. That case is measured in pieces that stay in the cache, and found out by
the sums themselves; only where one of them is not finite are the elements told apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import torch

from .precisions import wide

_PIECE = 1 << 18  # stays in a processor's cache
_PIECE_ON_DEVICE = 1 << 25  # fills a GPU, and its doubles still find room beside a large problem
_MASK = 2.0**13  # no smaller value is taken for a mask
_APART = 10  # powers of two between masks and all other values
_FEWEST = 0.01  # of the values must be other than masks
_EXPONENTS = 1100  # of doubles, rounded up


def rms_of(tensor: torch.Tensor) -> float:
    """Of the finite elements that are no masks."""
    if tensor.numel() == 0:
        return 0.0
    square = sum(_square(piece) for (piece,) in pieces(tensor))
    if square < _MASK**2:
        return math.sqrt(square / tensor.numel())
    bound = _bound(tensor, square)
    if math.isfinite(square) and math.isinf(bound):
        return math.sqrt(square / tensor.numel())
    square, count = 0.0, 0
    for (piece,) in pieces(tensor):
        counts = torch.isfinite(piece) & (piece.abs() <= bound)
        square += _square(torch.where(counts, piece, 0))
        count += int(counts.sum())
    return math.sqrt(square / count) if count else 0.0


def _bound(true: torch.Tensor, square: float | None = None) -> float:
    """How large a value may be to count towards an rms. Values of ten thousand and more that stand a thousand times above all
    others stand for nothing: masks, as -1e9 and the smallest float are. Measured by those everything else would be
    right."""
    if square is None:
        square = sum(_square(piece) for (piece,) in pieces(true))
    if square < _MASK**2:
        return math.inf
    counts = torch.zeros(2 * _EXPONENTS, dtype=torch.long, device=true.device)
    for (piece,) in pieces(true):
        values = piece.double()
        values = values[torch.isfinite(values) & (values != 0)]
        exponents = torch.frexp(values).exponent.clamp(1 - _EXPONENTS, _EXPONENTS - 1).long()
        counts += torch.bincount(exponents + _EXPONENTS, minlength=2 * _EXPONENTS)
    there = counts.nonzero().flatten().tolist()
    below, total = 0, int(counts.sum())
    for low, high in itertools.pairwise(there):
        below += int(counts[low])
        if high - low > _APART and high - _EXPONENTS > math.log2(_MASK) and below >= _FEWEST * total:
            return math.ldexp(1.0, low - _EXPONENTS)
    return math.inf


def mean_of(tensor: torch.Tensor) -> float:
    """Of the finite elements."""
    total, count = 0.0, 0
    for (piece,) in pieces(tensor):
        finite = torch.isfinite(piece)
        total += float(torch.where(finite, piece, 0).sum(dtype=torch.float64))
        count += int(finite.sum())
    return total / count if count else 0.0


def error_of(got: torch.Tensor, true: torch.Tensor) -> float:
    """Root mean square of the difference, over what counts towards the rms of the truth."""
    if got.numel() == 0:
        return 0.0
    bound = _bound(true)
    square = sum(_square(mine.double() - exact) for mine, exact in pieces(got, true))
    if math.isfinite(square) and math.isinf(bound):
        return math.sqrt(square / got.numel())
    square, count = 0.0, 0
    for mine, exact in pieces(got, true):
        both = torch.isfinite(exact) & torch.isfinite(mine) & (exact.abs() <= bound)
        square += _square(torch.where(both, mine.double() - exact, 0.0))
        count += int(both.sum())
    return math.sqrt(square / count) if count else 0.0


def worst_of(got: torch.Tensor, true: torch.Tensor, scale: float) -> float:
    """The worst element, relative to its own size and to `scale` times the rms of all."""
    measured = measure(got, true, scale)
    if measured is not None:
        return measured[1]
    if got.numel() == 0:
        return 0.0
    rms, worst = rms_of(true), 0.0
    for mine, exact in pieces(got, true):
        both = torch.isfinite(exact) & torch.isfinite(mine)
        allowed = (exact.double().abs() + rms * scale).clamp(min=1e-300)
        ratio = torch.where(both, (mine.double() - exact).abs() / allowed, 0.0)
        worst = max(worst, float(ratio.max()))
    return worst


def measure(got: torch.Tensor, true: torch.Tensor, scale: float) -> tuple[float, float] | None:
    """Rms error and worst element where all is finite and nothing is a mask, in one pass; None elsewhere."""
    if got.numel() == 0:
        return None
    whole = sum(_square(exact) for _mine, exact in pieces(got, true))
    if math.isfinite(_bound(true, whole)):
        return None
    rms = math.sqrt(whole / got.numel())
    square, worst = 0.0, 0.0
    for mine, exact in pieces(got, true):
        exact = exact.double()
        difference = mine - exact  # in double precision, whatever it was
        square += _square(difference)
        if not math.isfinite(square + rms):
            return None
        allowed = exact.abs().add_(max(rms * scale, 1e-300))
        worst = max(worst, float(torch.linalg.vector_norm(difference.div_(allowed), math.inf)))
    return math.sqrt(square / got.numel()), worst


def _square(piece: torch.Tensor) -> float:
    norm = float(torch.linalg.vector_norm(piece, dtype=torch.float64))
    return norm * norm  # infinity where it is too large; `norm ** 2` would raise


def pieces(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """The same parts of tensors of one shape, flat, one after the other."""
    piece = _PIECE if tensors[0].device.type == "cpu" else _PIECE_ON_DEVICE
    return zip(*(_parts(tensor, piece) for tensor in tensors), strict=True)


def _parts(tensor: torch.Tensor, piece: int) -> Iterator[torch.Tensor]:
    return (wide(part) for part in tensor.reshape(-1).split(piece))
