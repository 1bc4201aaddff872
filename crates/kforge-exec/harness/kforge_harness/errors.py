"""How far a tensor is from the truth: over the finite elements, in double precision.

Nearly every tensor is finite throughout. That case is measured in pieces that stay in the cache, and found out by
the sums themselves; only where one of them is not finite are the elements told apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

_PIECE = 1 << 18  # stays in a processor's cache
_PIECE_ON_DEVICE = 1 << 25  # fills a GPU, and its doubles still find room beside a large problem


def rms_of(tensor: torch.Tensor) -> float:
    if tensor.numel() == 0:
        return 0.0
    square = sum(_square(piece) for (piece,) in pieces(tensor))
    if math.isfinite(square):
        return math.sqrt(square / tensor.numel())
    square, count = 0.0, 0
    for (piece,) in pieces(tensor):
        finite = torch.isfinite(piece)
        square += _square(torch.where(finite, piece, 0))
        count += int(finite.sum())
    return math.sqrt(square / count) if count else 0.0


def mean_of(tensor: torch.Tensor) -> float:
    """Of the finite elements."""
    total, count = 0.0, 0
    for (piece,) in pieces(tensor):
        finite = torch.isfinite(piece)
        total += float(torch.where(finite, piece, 0).sum(dtype=torch.float64))
        count += int(finite.sum())
    return total / count if count else 0.0


def error_of(got: torch.Tensor, true: torch.Tensor) -> float:
    """Root mean square of the difference."""
    if got.numel() == 0:
        return 0.0
    square = sum(_square(mine.double() - exact) for mine, exact in pieces(got, true))
    if math.isfinite(square):
        return math.sqrt(square / got.numel())
    square, count = 0.0, 0
    for mine, exact in pieces(got, true):
        both = torch.isfinite(exact) & torch.isfinite(mine)
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
    """Rms error and worst element where all is finite, in one pass; None elsewhere."""
    if got.numel() == 0:
        return None
    rms = math.sqrt(sum(_square(exact) for _mine, exact in pieces(got, true)) / got.numel())
    square, worst = 0.0, 0.0
    for mine, exact in pieces(got, true):
        difference = mine.double() - exact  # not in place: of a double tensor `double()` is the tensor itself
        square += _square(difference)
        if not math.isfinite(square + rms):
            return None
        allowed = exact.double().abs().add_(rms * scale).clamp_(min=1e-300)
        worst = max(worst, float(difference.abs_().div_(allowed).max()))
    return math.sqrt(square / got.numel()), worst


def _square(piece: torch.Tensor) -> float:
    norm = float(torch.linalg.vector_norm(piece, dtype=torch.float64))
    return norm * norm  # infinity where it is too large; `norm ** 2` would raise


def pieces(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """The same parts of tensors of one shape, flat, one after the other."""
    piece = _PIECE if tensors[0].device.type == "cpu" else _PIECE_ON_DEVICE
    return zip(*(tensor.reshape(-1).split(piece) for tensor in tensors), strict=True)
