"""Other values for an input that `get_inputs` gives the same each time, within what was observed of it.

Positions stay sorted, permutations stay permutations, a causal mask stays causal: what a kernel may rely on is kept, and
one that ignores the input is noticed. Nothing is kept but the name of a way, since all else is read off the tensor.
"""

from __future__ import annotations

import math

import torch

from .precisions import wide

_FEW = 16  # distinct values
_SAMPLED = 1 << 18
_FLIPPED = 0.125  # of the elements of a mask
_RELATIVE = 0.2  # of one value, up or down
_NOISE = 0.05  # of the spread of many values
_CHANCE = math.log(40320)  # eight numbers are sorted by chance once in so many draws
_BITS = 16.0  # that random values would have behind the point
RISING, FALLING, SYMMETRIC = "rising", "falling", "symmetric"


def ways(tensor: torch.Tensor) -> list[str]:
    """Those that might fit, the most telling first."""
    if tensor.numel() == 0:
        return []
    distinct = torch.unique(_sample(wide(tensor)) if tensor.is_floating_point() else tensor)
    if tensor.is_floating_point():
        if distinct.numel() == 1:
            return ["scale"] if bool(torch.isfinite(distinct).all()) else []
        if distinct.numel() > _FEW:
            return _ways_of_many_integers(tensor) if are_whole(tensor) else ["perturb"]
        return [*(["triangle"] if _is_triangular(tensor) else []), "shuffle_rows", "shuffle"]
    if tensor.dtype == torch.bool and distinct.numel() == 1:
        return ["flip"]
    if distinct.numel() == 1:
        return ["lower"] if int(distinct) > 1 else []
    if distinct.numel() == 2 and _is_triangular(tensor):
        return ["triangle"]
    if tensor.dtype == torch.bool:
        return ["shuffle_rows", "shuffle"]
    return _ways_of_many_integers(tensor)


def _ways_of_many_integers(tensor: torch.Tensor) -> list[str]:
    values = wide(tensor)
    if is_sorted(values):
        return ["steps"]
    if torch.unique(values).numel() == values.numel():
        return ["shuffle"]
    if values.dim() > 1 and bool((values.sort(-1).values.diff() != 0).all()):
        return ["shuffle_rows"]
    return ["range", "shuffle"]


def vary(tensor: torch.Tensor, way: str, generator: torch.Generator) -> torch.Tensor:
    values = wide(tensor)
    if way == "scale":
        made = _scaled(values, generator)
    elif way == "perturb":
        made = _perturbed(values, generator)
    elif way == "triangle":
        made = _in_triangle(values, generator)
    elif way == "flip":
        made = values ^ (_uniform(values, generator) < _FLIPPED)
    elif way == "steps":
        made = _steps(values, generator)
    elif way == "lower":  # as lengths are
        most = int(values.max())
        made = torch.randint(
            (most + 1) // 2, most + 1, values.shape, generator=generator, dtype=values.dtype, device=values.device
        )
    elif way == "range":
        low, high = int(values.min()), int(values.max())
        made = torch.randint(low, high + 1, values.shape, generator=generator, dtype=values.dtype, device=values.device)
    elif way == "shuffle_rows" and values.dim():
        made = values.gather(-1, _uniform(values, generator).argsort(-1))
    else:
        order = torch.randperm(values.numel(), generator=generator, device=values.device)
        made = values.reshape(-1)[order].view(values.shape)
    return torch.empty_like(tensor).copy_(made)  # with its strides


def _sample(values: torch.Tensor) -> torch.Tensor:
    """Enough of a large tensor to tell few values from many."""
    flat = values.reshape(-1)
    return flat[:: max(1, flat.numel() // _SAMPLED)]


def _uniform(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(like.shape, generator=generator, device=like.device)


def _normal(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    return torch.randn(like.shape, generator=generator, device=like.device, dtype=dtype)


def _scaled(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if bool((values == 0).all()):
        return 0.1 * _normal(values, generator)
    return values * (1 + _RELATIVE * (2 * _uniform(values, generator) - 1))


def _perturbed(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Zeros and non-finite values stay where they are, and sorted values sorted."""
    moving = torch.isfinite(values) & (values != 0)
    known = values[moving].double()
    noise = _NOISE * float(known.std()) * _normal(values, generator)
    made = (values + noise).clamp(float(known.min()), float(known.max())).to(values.dtype)
    made = torch.where(moving, made, values)
    return made.sort(-1).values if is_sorted(values) else made


def _steps(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Sorted rows from the same start to the same end, with the same steps between them in another order."""
    steps = values.diff(dim=-1)
    steps = steps.gather(-1, _uniform(steps, generator).argsort(-1))
    return torch.cat([values[..., :1], values[..., :1] + steps.cumsum(-1)], -1).to(values.dtype)


def is_sorted(values: torch.Tensor) -> bool:
    """Along the last dimension."""
    if not values.dim() or values.shape[-1] < 2 or not values.numel():
        return False
    rows = values.reshape(-1, values.shape[-1])
    return all(bool((some[:, 1:] >= some[:, :-1]).all()) for some in (rows[:4], rows))


def order_of(tensor: torch.Tensor) -> str:
    """What floating values have that random ones do not: sorted along the last dimension, or a symmetric matrix."""
    values = wide(tensor)
    if not values.is_floating_point() or not values.dim() or values.shape[-1] < 2 or not values.numel():
        return ""
    if bool((values == values.flatten()[0]).all()):
        return ""
    if values.numel() // values.shape[-1] * math.lgamma(values.shape[-1] + 1) >= _CHANCE:
        if is_sorted(values):
            return RISING
        if is_sorted(-values):
            return FALLING
    if values.dim() > 1 and values.shape[-1] == values.shape[-2]:
        corner = values[..., : min(8, values.shape[-1]), : min(8, values.shape[-1])]
        if torch.equal(corner, corner.mT) and torch.equal(values, values.mT):
            return SYMMETRIC
    return ""


def kept(tensor: torch.Tensor, order: str) -> torch.Tensor:
    """Changed values in the order that they were in before."""
    values = wide(tensor)
    if order in (RISING, FALLING):
        made = values.sort(-1, descending=order == FALLING).values
    elif order == SYMMETRIC:
        made = values.tril() + values.tril(-1).mT
    else:
        return tensor
    return torch.empty_like(tensor).copy_(made)  # with its strides


def are_whole(tensor: torch.Tensor) -> bool:
    """Whether floating values are all whole numbers, and not for want of bits behind the point."""
    values = wide(tensor)
    if not values.is_floating_point() or not values.numel() or not bool((values == values.round()).all()):
        return False
    sizes = _sample(values).double().abs()
    sizes = sizes[(sizes > 0) & torch.isfinite(sizes)] * torch.finfo(tensor.dtype).eps
    return float((-sizes.log2()).clamp(min=0.0).sum()) >= _BITS


def is_divisible(tensor: torch.Tensor) -> bool:
    """Whether a part of it may come from another draw: not so of sorted offsets, permutations, masks above a diagonal, and
    rows that have all the same sum, as those of one place each."""
    values = wide(tensor)
    if values.numel() < 2 or order_of(tensor) or _is_triangular(values) or is_sorted(values):
        return False
    if values.dim() > 1 and values.shape[-1] > 1:
        sums = values.double().nan_to_num(0.0, 0.0, 0.0).sum(-1)
        if bool((sums == sums.flatten()[0]).all()):
            return False
    if values.is_floating_point() or tensor.dtype == torch.bool:
        return True
    return values.shape[-1] < 2 or not bool((values.sort(-1).values.diff() != 0).all())


def _beyond(values: torch.Tensor) -> torch.Tensor:
    """How far each place of the last two dimensions is right of the diagonal."""
    rows, columns = (torch.arange(size, device=values.device) for size in values.shape[-2:])
    return columns[None, :] - rows[:, None]


def _edge(values: torch.Tensor) -> tuple[int, torch.Tensor] | None:
    """The last diagonal of the lower part of a matrix whose upper part is one value, and that value."""
    if values.dim() < 2 or min(values.shape[-2:]) < 2:
        return None
    outside = values[..., 0, -1].flatten()[0]
    here = (values != outside).flatten(0, -3).any(0) if values.dim() > 2 else values != outside
    if not bool(here.any()):
        return None
    edge = int(_beyond(values)[here].max())
    return (edge, outside) if edge < values.shape[-1] - 1 else None


def _is_triangular(values: torch.Tensor) -> bool:
    """Whether one value fills the part above a diagonal and another the rest, as in a causal mask."""
    values = wide(values)
    # Few tensors get as far as to be looked at whole: telling all values apart means sorting them.
    if torch.unique(_sample(values)).numel() > 2:
        return False
    found = _edge(values)
    if found is None:
        return False
    inside = (values != found[1]) == (_beyond(values) <= found[0])
    return bool(inside.all()) and torch.unique(values).numel() == 2


def _in_triangle(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Some places below the diagonal like those above it: every row keeps its place at the edge."""
    found = _edge(values)
    if found is None:
        return values
    edge, outside = found
    below = _beyond(values) < edge
    chosen = (_uniform(values, generator) < 2 * _FLIPPED) & below
    return torch.where(chosen, outside, values)
