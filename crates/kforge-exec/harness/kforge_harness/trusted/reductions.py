"""How many values the reference adds up for one element of each of its outputs, and whether it multiplies matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from ..shared.modes import Watch, name_of

# Results that are smaller because they were chosen from, not because anything was added up.
_CHOOSING = frozenset(
    """select slice narrow index index_select gather embedding take masked_select diagonal unbind split split_with_sizes
    chunk topk sort as_strided unfold max min amax amin argmax argmin""".split()
)
_MAKING = ("new_", "empty", "zeros", "ones", "full")  # take only dtype and device from their argument
# Known by these names on every backend, so that they need not be taken apart.
_PRODUCTS = frozenset("mm bmm mv dot matmul inner vdot _scaled_mm _int_mm _grouped_mm _scaled_grouped_mm".split())
_SUMMED_PRODUCTS = frozenset("addmm baddbmm addmv addbmm linear".split())
_ALSO_PRODUCTS = (
    "convolution",
    "attention",
    "mkldnn_rnn",
    "cudnn_rnn",
    "miopen_rnn",
    "cdist",
    "euclidean",
    "_trilinear",
)


class ReductionMeter(Watch):
    """Follows each tensor through the operators that made it: what another output adds up is no excuse for this one."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.longest = 1  # of all operators
        self.multiplies = False
        self._behind: dict[int, int] = {}  # by storage, the longest reduction on the way to it
        self._sums: dict[int, int] = {}  # and the longest that is no product
        self._products: dict[int, frozenset[int]] = {}  # and the products, by their number
        self._mixed: set[int] = set()  # storages behind a convolution of neighbours
        self._count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = name_of(func)
        parts = decomposed(self, func, args, kwargs)
        if parts is not NotImplemented:
            return parts
        result = func(*args, **kwargs)
        given = list(_tensors((args, kwargs)))
        products = frozenset[int]().union(*(self._products.get(_storage(t), ()) for t in given))
        if is_product(name):
            self.multiplies = True
            products |= {self._count}
            self._count += 1
        mixed = _mixes_neighbours(name, args) or any(_storage(t) in self._mixed for t in given)
        here = 1
        if not name.startswith(_MAKING):
            tensors = [a for a in args if isinstance(a, torch.Tensor)]
            if tensors:
                here = _reduction(name, tensors, args, result)
            self.longest = max(self.longest, here)
        summed = max([1 if is_product(name) else here, *(self._sums.get(_storage(t), 1) for t in given)])
        if not name.startswith(_MAKING):
            here = max([here, *(self._behind.get(_storage(t), 1) for t in given)])
        for made in _tensors(result):
            self._behind[_storage(made)] = here
            self._sums[_storage(made)] = summed
            self._products[_storage(made)] = products
            (self._mixed.add if mixed else self._mixed.discard)(_storage(made))
        return result

    def products_of(self, outputs: list[torch.Tensor]) -> list[list[int]]:
        """The products that each output is made of."""
        return [sorted(self._products.get(_storage(output), ())) for output in outputs]

    def mixes_of(self, outputs: list[torch.Tensor]) -> list[bool]:
        """Whether a convolution of neighbours is on the way to each output."""
        return [_storage(output) in self._mixed for output in outputs]

    def sums_of(self, outputs: list[torch.Tensor]) -> list[int]:
        """The longest reduction of each output that is no product."""
        return [self._sums.get(_storage(output), self.longest) for output in outputs]

    def of(self, outputs: list[torch.Tensor]) -> list[int]:
        """For each output its own; one that no operator made here may have the longest."""
        return [self._behind.get(_storage(output), self.longest) for output in outputs]


def _mixes_neighbours(name: str, args: Any) -> bool:
    """A convolution may be computed by transforms of several values at once (Winograd, Fourier): its rounding then follows
    the largest of them, and not each element."""
    if "convolution" not in name:
        return False
    weight = args[1]
    return isinstance(weight, torch.Tensor) and math.prod(weight.shape[2:]) > 1


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from _tensors(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _tensors(entry)


def decomposed(mode: Watch, func: Any, args: Any, kwargs: Any) -> Any:
    """In inference mode conv2d, einsum, lstm and the like come whole: what they are made of is looked at. `NotImplemented`
    where there is nothing to take apart."""
    name = name_of(func)
    if name in _PRODUCTS or name in _SUMMED_PRODUCTS or not hasattr(func, "decompose"):
        return NotImplemented
    with mode:
        return func.decompose(*args, **kwargs)


def is_product(name: str) -> bool:
    return name in _PRODUCTS or name in _SUMMED_PRODUCTS or any(part in name for part in _ALSO_PRODUCTS)


def factors(name: str, args: Any) -> list[int]:
    """The places of the arguments that are multiplied with each other: what is only added is none of them."""
    tensors = [place for place, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
    if name == "linear" or name in _PRODUCTS or "convolution" in name:
        return tensors[:2]
    if name in _SUMMED_PRODUCTS:
        return tensors[1:3]
    return tensors[:3] if "attention" in name else tensors


def _reduction(name: str, tensors: list[torch.Tensor], args: Any, result: Any) -> int:
    """How many values one operator adds up for one element of its result."""
    first = tensors[0]
    second = tensors[1] if len(tensors) > 1 else first
    if name in _PRODUCTS or name in _SUMMED_PRODUCTS:
        return int((first if name in _PRODUCTS else second).shape[-1])
    if "convolution" in name:
        transposed = len(args) > 8 and args[6] is True
        return second.numel() // max(1, second.shape[1] * int(args[8]) if transposed else second.shape[0])
    if name.startswith("mkldnn_rnn"):
        return max(int(weight.shape[-1]) for weight in tensors[1:3])
    if "attention" in name:
        return max(int(first.shape[-1]), int(second.shape[-2]))
    if "cdist" in name or "euclidean" in name:
        return int(first.shape[-1])
    if "softmax" in name or name.startswith("cum"):
        return int(first.shape[args[1]]) if first.dim() and isinstance(args[1], int) else 1
    if "layer_norm" in name or "rms_norm" in name:
        return math.prod(args[1])
    if name == "native_group_norm":
        return first.numel() // max(1, first.shape[0] * int(args[6]))
    if "batch_norm" in name:
        return first.numel() // max(1, first.shape[1])
    made = result[0] if name.startswith(("var", "std")) and isinstance(result, tuple) else result
    if name in _CHOOSING or not isinstance(made, torch.Tensor) or not made.numel():
        return 1
    return first.numel() // made.numel()
