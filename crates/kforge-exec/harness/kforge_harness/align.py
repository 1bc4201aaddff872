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
        for name, value in vars(child).items():
            if isinstance(value, torch.Tensor):
                found.append(Weight(f"{path}.{name}" if path else name, value, "plain"))
    return found


def align(module: nn.Module, given: list[tuple[str, torch.Tensor]]) -> list[str]:
    """Copies `given` into `module`; returns the names of given weights that found no place."""
    places = weights_of(module)
    taken: set[int] = set()
    left: list[tuple[str, torch.Tensor]] = []
    with torch.no_grad():
        for name, tensor in given:
            spot = _find(places, taken, tensor, name)
            if spot is None:
                left.append((name, tensor))
            else:
                _fill(places[spot], tensor, taken, spot)
        unplaced: list[str] = []
        for name, tensor in left:
            spot = _find(places, taken, tensor)
            if spot is None:
                unplaced.append(name)
            else:
                _fill(places[spot], tensor, taken, spot)
    return unplaced


def _find(places: list[Weight], taken: set[int], tensor: torch.Tensor, name: str | None = None) -> int | None:
    for i, place in enumerate(places):
        if i not in taken and place.tensor.shape == tensor.shape and name in (None, place.name):
            return i
    return None


def _fill(place: Weight, tensor: torch.Tensor, taken: set[int], spot: int) -> None:
    place.tensor.data.copy_(tensor)
    taken.add(spot)
