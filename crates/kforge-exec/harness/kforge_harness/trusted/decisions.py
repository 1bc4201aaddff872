"""Operators that decide by a value: they round, compare or rank. What one is decided by, and how it comes out otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .errors import rms_of

_COMPARING = frozenset("gt lt ge le greater less greater_equal less_equal".split())
_STEPPING = frozenset(
    "round floor ceil trunc fix sign sgn frac remainder fmod floor_divide bucketize heaviside signbit "
    "fake_quantize_per_tensor_affine fake_quantize_per_channel_affine".split()
)
_CONVERTING = frozenset("_to_copy to".split())
_DESCENDING = {"argmax": True, "max": True, "argmin": False, "min": False, "kthvalue": False, "median": False}
_RANKING = frozenset((*_DESCENDING, *"topk sort argsort".split()))
# Their results are values that came in, or numbers that are exact.
_SELECTING = frozenset(
    """_to_copy to clone contiguous detach alias view _unsafe_view reshape expand expand_as permute transpose t slice
    select index index_select gather take take_along_dim embedding cat concat stack unbind split split_with_sizes chunk
    narrow squeeze unsqueeze flatten unflatten max min amax amin maximum minimum clamp clamp_min clamp_max relu abs neg
    where masked_fill sort topk msort flip roll movedim copy lift_fresh empty zeros ones full arange eye tril triu
    zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty fill zero masked_select diagonal repeat
    repeat_interleave cummax cummin median kthvalue mode constant_pad_nd pad one_hot max_pool1d max_pool2d max_pool3d
    max_pool2d_with_indices adaptive_max_pool2d scatter index_copy slice_scatter select_scatter
    round floor ceil trunc fix sign sgn type_as numpy_T mT double float""".split()
)
_DISCRETE = _COMPARING | frozenset(
    "eq ne logical_and logical_or logical_not bitwise_and bitwise_or bitwise_not isnan isfinite isinf bucketize argmax "
    "argmin argsort".split()
)


def is_selecting(name: str, kwargs: Any) -> bool:
    """Whether what comes out is as exact as what goes in."""
    if name in ("round", "pad") and ({"decimals"} & set(kwargs)):
        return False
    return name in _SELECTING or name in _DISCRETE


def without_underscore(name: str) -> str:
    """An operator's name, of one that works in place too."""
    return name[:-1] if name.endswith("_") and not name.startswith("_") else name


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from tensors_in(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from tensors_in(entry)


def storages_of(value: Any) -> set[int]:
    return {tensor.untyped_storage().data_ptr() for tensor in tensors_in(value)}


@dataclass
class Ranks:
    """What is ranked along one dimension, or all of it, and which ranks are taken."""

    name: str
    dim: int | None
    descending: bool
    keepdim: bool
    count: int  # of ranks, from the first
    at: int  # the one rank that is taken, where it is one
    in_order: bool


@dataclass
class Decision:
    first: torch.Tensor
    second: Any = None  # what it is compared with
    ranked: Ranks | None = None
    computed: bool = True  # else only ties are free

    @property
    def numel(self) -> int:
        return max([self.first.numel(), *(t.numel() for t in tensors_in(self.second))])

    def values_and_sizes(self) -> tuple[torch.Tensor, torch.Tensor]:
        first = self.first.double()
        if self.second is None:
            return first.clone(), first.abs() + rms_of(first)
        second = torch.as_tensor(self.second, dtype=torch.float64, device=first.device)
        rms = max(rms_of(first), rms_of(second) if isinstance(self.second, torch.Tensor) else 0.0)
        return first - second, first.abs() + second.abs() + rms

    def otherwise(self, slack: float, upwards: bool, func: Any, args: Any, kwargs: Any) -> Any:
        if self.ranked is not None:
            return self._ranked_otherwise(self.ranked, slack if self.computed else 0.0, upwards)
        values, sizes = self.values_and_sizes()
        # What is nothing is so for everybody; so are counts.
        by = torch.where(sizes.isfinite() & ~self._is_nothing(), slack * sizes, 0.0)
        if _counts(values) and _counts(self.first):
            by = torch.zeros_like(by)
        by = by if upwards else -by
        if _works_in_place(func):
            args[0].add_(by.to(args[0].dtype))
            return func(*args, **kwargs)
        return func((self.first + by).to(self.first.dtype), *args[1:], **kwargs)

    def _is_nothing(self) -> torch.Tensor:
        nothing = self.first == 0
        return nothing if self.second is None else nothing & (torch.as_tensor(self.second) == 0)

    def _ranked_otherwise(self, ranks: Ranks, slack: float, upwards: bool) -> Any:
        """Ranks that are told apart by less than the slack, in the order of their places, or in the opposite one."""
        scores, dim = (self.first.flatten(), 0) if ranks.dim is None else (self.first, ranks.dim)
        values, order = scores.sort(dim, descending=ranks.descending)
        apart = values.diff(dim=dim).abs()
        size = scores.shape[dim]
        if slack and values.is_floating_point():
            near = apart <= slack * (values.narrow(dim, 1, size - 1).abs() + rms_of(scores))
        else:
            near = apart == 0
        group = torch.cat([torch.zeros_like(order.narrow(dim, 0, 1)), (~near).cumsum(dim)], dim)
        within = size - 1 - order if upwards else order
        order = order.gather(dim, (group * size + within).argsort(dim))
        taken = order.narrow(dim, ranks.at, ranks.count)
        chosen = scores.gather(dim, taken)
        if not ranks.keepdim:
            taken, chosen = taken.squeeze(dim), chosen.squeeze(dim)
        elif ranks.dim is None:
            taken = taken.reshape([1] * self.first.dim())
        return taken if ranks.name.startswith("arg") else (chosen, taken)


def _works_in_place(func: Any) -> bool:
    return bool(func._schema.is_mutable)


def _counts(values: torch.Tensor) -> bool:
    """Whether all of them are whole numbers."""
    return bool((values == values.round()).all())


def decision_of(
    name: str, func: Any, args: Any, kwargs: Any, is_computed: Callable[[torch.Tensor], bool]
) -> Decision | None:
    """What an operator decides by values that were computed, or by ranks; None where it decides nothing that is free."""
    if not args or not isinstance(args[0], torch.Tensor):
        return None
    first = args[0]
    if name in _RANKING:
        return _ranking(name, func, args, kwargs, is_computed(first))
    if not first.is_floating_point() or not first.numel():
        return None
    if name in _COMPARING:
        second = args[1]
        if isinstance(second, torch.Tensor) and not second.is_floating_point():
            second = second.to(first.dtype)
        computed = any(is_computed(side) for side in (first, args[1]) if isinstance(side, torch.Tensor))
        return Decision(first, second) if computed else None
    if not is_computed(first):
        return None
    if name in _CONVERTING:
        wanted = [a for a in (*args[1:], *kwargs.values()) if isinstance(a, torch.dtype)]
        whole = bool(wanted) and not (wanted[0].is_floating_point or wanted[0].is_complex or wanted[0] == torch.bool)
        return Decision(first) if whole else None
    stepping = name in _STEPPING or (name in ("div", "divide") and kwargs.get("rounding_mode") is not None)
    return Decision(first) if stepping else None


def _ranking(name: str, func: Any, args: Any, kwargs: Any, computed: bool) -> Decision | None:
    if not hasattr(func, "_schema") or _works_in_place(func):
        return None
    named = dict(zip((a.name for a in func._schema.arguments), args, strict=False)) | kwargs
    scores, ranked = named["self"], name in ("topk", "sort", "argsort")
    dim = named.get("dim", -1 if ranked or name == "kthvalue" else None)
    if "other" in named or not scores.dim() or not scores.numel() or named.get("stable"):
        return None
    if (dim is None and not name.startswith("arg")) or not isinstance(dim, (int, type(None))):
        return None  # the extreme itself, not its place
    size = scores.numel() if dim is None else scores.shape[dim]
    at = {"kthvalue": int(named.get("k", 1)) - 1, "median": (size - 1) // 2}.get(name, 0)
    count = {"topk": int(named.get("k", 1)), "sort": size, "argsort": size}.get(name, 1)
    descending = _DESCENDING.get(
        name, bool(named.get("largest", True) if name == "topk" else named.get("descending", False))
    )
    keepdim = ranked or bool(named.get("keepdim", False))
    in_order = name == "sort" or (name == "topk" and bool(named.get("sorted", True)))
    return Decision(scores, None, Ranks(name, dim, descending, keepdim, count, at, in_order), computed)
