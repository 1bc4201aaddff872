"""Gives a module the reference's weights: by name, then by shape in order of registration.

The candidate never supplies the aligner. Tensors that a module keeps as plain attributes count as weights too.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Weight:
    """A tensor of a module, by its dotted name; `plain` where it is neither parameter nor buffer."""

    name: str
    tensor: torch.Tensor
    kind: str  # parameter, buffer, plain


def weights_of(module: nn.Module) -> list[Weight]:
    """Parameters, buffers and plain tensor attributes, each in order of registration."""
    found = [Weight(name, tensor, "parameter") for name, tensor in module.named_parameters(remove_duplicate=False)]
    found += [Weight(name, tensor, "buffer") for name, tensor in module.named_buffers(remove_duplicate=False)]
    for path, child in module.named_modules():
        computed = {getattr(hook, "name", None) for hook in getattr(child, "_forward_pre_hooks", {}).values()}
        for name, value in vars(child).items():
            # What a hook computes before each call is none: `torch.nn.utils.weight_norm` does so.
            if isinstance(value, torch.Tensor) and not (name in computed and value.dtype.is_floating_point):
                found.append(Weight(f"{path}.{name}" if path else name, value, "plain"))
    return found


def align(module: nn.Module, given: list[tuple[str, torch.Tensor]]) -> list[str]:
    """Copies `given` into `module`; returns the names of given weights that found no place."""
    found = places(module, given)
    with torch.no_grad():
        for name, tensor in given:
            if name in found:
                found[name].tensor.data.copy_(tensor)
    # A weight may have several names: one of them is enough.
    placed = [tensor for name, tensor in given if name in found]
    return [name for name, tensor in given if name not in found and not any(_same(tensor, other) for other in placed)]


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.contiguous(), b.contiguous())


def places(module: nn.Module, given: list[tuple[str, torch.Tensor]]) -> dict[str, Weight]:
    """Where in `module` each of the given weights belongs, by the given name."""
    spots = weights_of(module)
    found: dict[str, Weight] = {}
    for by_name in (True, False):
        for name, tensor in given:
            fitting = (w for w in spots if w.tensor.shape == tensor.shape and (w.name == name or not by_name))
            spot = None if name in found else next(fitting, None)
            if spot is not None:
                found[name] = spot
                spots = [other for other in spots if other is not spot]
    return found
