"""Runs of the reference in which products have operands of less precision, as a kernel has them that saves there.

Only what is multiplied is rounded, and weights that are worth keeping in fewer bytes: rounding a constant that is merely
added would make an error that nobody who multiplies in lower precision makes, and excuse one that he does.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from ..shared.align import weights_of
from ..shared.modes import Watch, name_of
from .precisions import round_to
from .problem import Drawn
from .reductions import decomposed, factors, is_product

NARROWABLE = 1 / 8  # of the bytes of inputs and outputs: from here on it pays to keep weights in fewer bits


class RoundedOperands(Watch):
    """Rounds what goes into a product of matrices or a convolution."""

    def __init__(self, precision: str, as_hardware: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._precision, self._as_hardware = precision, as_hardware

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        parts = decomposed(self, func, args, kwargs)
        if parts is not NotImplemented:
            return parts
        name = name_of(func)
        if is_product(name):
            args = list(args)
            for place in factors(name, args):
                if args[place].is_floating_point():
                    args[place] = round_to(args[place], self._precision, self._as_hardware)
        return func(*args, **kwargs)


def with_narrow_weights(model: nn.Module, precision: str, io_bytes: int) -> nn.Module:
    """A copy in which weights that are worth it are rounded."""
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for weight in weights_of(twin):
            if weight.tensor.is_floating_point() and weight.tensor.nbytes >= NARROWABLE * io_bytes:
                weight.tensor.data.copy_(round_to(weight.tensor.data, precision))
    return twin


def with_narrow_values(model: nn.Module, drawn: Drawn, precision: str, as_hardware: bool) -> tuple[nn.Module, Drawn]:
    """A copy with all weights rounded, and inputs that are."""
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for weight in weights_of(twin):
            if weight.tensor.is_floating_point():
                weight.tensor.data.copy_(round_to(weight.tensor.data, precision, as_hardware))
    inputs = [round_to(t, precision, as_hardware) if t.is_floating_point() else t for t in drawn.tensors]
    return twin, Drawn(drawn.skeleton, inputs)
