"""Which values a place that pooling returns may have been chosen from."""

from __future__ import annotations

from typing import Any

import torch

POOLS = frozenset(
    "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool1d adaptive_max_pool2d "
    "adaptive_max_pool3d".split()
)


def of(name: str, named: dict[str, Any]) -> list[list[int]]:
    """For each dimension the length of a window, its stride, padding and dilation; nothing where they adapt to the sizes."""
    dims = int(name[name.index("pool") + 4])
    if name.startswith("adaptive"):
        return [[] for _ in range(dims)]
    size = _each(named["kernel_size"], dims, 1)
    stride = _each(named.get("stride"), dims, 1) if named.get("stride") else size
    others = [_each(named.get(key), dims, usual) for key, usual in (("padding", 0), ("dilation", 1))]
    return [list(entry) for entry in zip(size, stride, *others, strict=True)]


def inside(got: torch.Tensor, sizes: list[int], window: list[list[int]]) -> bool:
    """Whether places in the flattened dimensions of pooling lie in the windows of those who chose them."""
    rest = got
    for back, (size, one) in enumerate(zip(reversed(sizes), reversed(window), strict=True)):
        place, rest = rest % size, rest.div(size, rounding_mode="floor")
        dim = got.dim() - 1 - back
        at, count = positions(got, dim), got.shape[dim]
        if one:
            length, stride, padding, dilation = one
            off = place - (at * stride - padding)
            fine = (off >= 0) & (off < length * dilation) & (off % dilation == 0)
        else:
            fine = (place >= at * size // count) & (place < -(-(at + 1) * size // count))
        if not bool(fine.all()):
            return False
    return not bool(rest.any())


def positions(got: torch.Tensor, dim: int) -> torch.Tensor:
    """Along one dimension."""
    dim %= got.dim()
    shape = [-1 if other == dim else 1 for other in range(got.dim())]
    return torch.arange(got.shape[dim], device=got.device).view(shape)


def _each(value: Any, dims: int, usual: int) -> list[int]:
    """One number may stand for all dimensions."""
    given = [usual] if value is None or value == [] else ([value] if isinstance(value, int) else list(value))
    return given * dims if len(given) == 1 else given
