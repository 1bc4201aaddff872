"""Numbers among the arguments of `forward` that are no tensors: the same in each call of a process, and varied with its weights."""

from __future__ import annotations

import inspect
import random
from typing import Any

from torch import nn

_RELATIVE = 0.2  # up or down
_LEAST = 0.1  # of what is zero


def differ(first: Any, second: Any) -> bool:
    """Whether two draws of the arguments have other values where there are no tensors."""
    return repr(first) != repr(second)


def varied(model: nn.Module, skeleton: list[Any], fixed: list[Any], seed: int) -> list[Any]:
    """The same arguments with other fractional numbers; whole ones are sizes and choices, and stay."""
    chance = random.Random(seed)
    parameters = list(inspect.signature(model.forward).parameters)
    named = [*parameters, *[""] * len(skeleton)]
    return [item if name in fixed else _other(item, chance) for item, name in zip(skeleton, named, strict=False)]


def _other(item: Any, chance: random.Random) -> Any:
    if isinstance(item, float):
        return item * (1 + _RELATIVE * chance.uniform(0.25, 1) * chance.choice((-1, 1))) if item else _LEAST
    if isinstance(item, dict):
        return {key: _other(entry, chance) for key, entry in item.items()}
    if isinstance(item, list) or type(item) is tuple:
        return type(item)(_other(entry, chance) for entry in item)
    return item
