"""Which ways of running the reference a contract allows, by name. A cell makes them: `hostile/baselines.py`."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..shared import device_context
from ..shared.framework_ways import (
    AUTOCAST,
    CAST_WEIGHTS,
    CHANNELS_LAST,
    CUDNN_BENCHMARK,
    EAGER,
    NARROW,
    products_of,
)


def ways(model: nn.Module, arguments: list[Any], mul: str, writes: bool) -> list[str]:
    """Without torch's compiler; the plain one comes first. What writes into its arguments is run as it is."""
    made = [EAGER]
    if writes:
        return made
    products = products_of(model, arguments)
    floats = {p.dtype for p in model.parameters()} | {a.dtype for a in arguments if isinstance(a, torch.Tensor)}
    if mul in NARROW and products.multiplied and torch.float32 in floats:
        made += [f"{EAGER}+{AUTOCAST}", f"{EAGER}+{CAST_WEIGHTS}"]
    if products.convolves:
        best = made[-1]
        tunes = device_context.current().tunes_convolutions
        made.append(f"{best}+{CHANNELS_LAST}" + (f"+{CUDNN_BENCHMARK}" if tunes else ""))
        if tunes:
            made.append(f"{best}+{CUDNN_BENCHMARK}")
    return made
