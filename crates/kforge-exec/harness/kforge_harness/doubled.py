"""The reference in float64, also where the device has no room for it at once.

Doubles take twice the memory of what eager needs. Where they do not fit, the batch is taken in parts, if the reference
treats its parts alike; else the CPU computes, which is slow and right.
"""

from __future__ import annotations

import copy

import torch
from torch import nn

from . import layout
from .problem import Drawn, forward

_FEWEST_PARTS, _MOST_PARTS = 4, 64
_ALIKE = 1e-3  # of the largest value: another algorithm for a smaller batch rounds otherwise, a mean over the batch differs more


def doubled_outputs(model: nn.Module, drawn: Drawn) -> list[torch.Tensor]:
    try:
        return forward(model, drawn, double=True)[1]
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
    return in_parts(model, drawn) or _on_the_cpu(model, drawn)


def in_parts(model: nn.Module, drawn: Drawn) -> list[torch.Tensor] | None:
    """Parts of the batch one after the other; None where the batch is not just many inputs side by side."""
    batch = max((t.shape[0] for t in drawn.tensors if t.dim()), default=0)
    _skeleton, native = forward(model, drawn)
    if batch < 2 * _FEWEST_PARTS or any(t.dim() == 0 or t.shape[0] != batch for t in native):
        return None
    parts = _FEWEST_PARTS
    while parts <= min(_MOST_PARTS, batch):
        try:
            pieces = [forward(model, _part(drawn, batch, parts, number), double=True)[1] for number in range(parts)]
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            parts *= 2
            continue
        except Exception:
            return None
        joined = [torch.cat(several) for several in zip(*pieces, strict=True)]
        alike = all(_close(a, b) for a, b in zip(joined, native, strict=True))
        return joined if alike else None
    return None


def _part(drawn: Drawn, batch: int, parts: int, number: int) -> Drawn:
    start, end = number * batch // parts, (number + 1) * batch // parts
    tensors = [t[start:end] if t.dim() and t.shape[0] == batch else t for t in drawn.tensors]
    return Drawn(drawn.skeleton, tensors)


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape:
        return False
    if not b.is_floating_point():
        return torch.equal(a.to(b.dtype), b)
    largest = float(b.abs().nan_to_num(0.0, 0.0, 0.0).max()) if b.numel() else 0.0
    return bool(torch.allclose(a.to(b.dtype), b, rtol=_ALIKE, atol=_ALIKE * largest, equal_nan=True))


def _on_the_cpu(model: nn.Module, drawn: Drawn) -> list[torch.Tensor]:
    device = drawn.tensors[0].device
    inputs = [t.cpu().double() if t.is_floating_point() else t.cpu() for t in drawn.tensors]
    twin = copy.deepcopy(model).cpu()
    for child in twin.modules():
        for name, value in list(vars(child).items()):
            if isinstance(value, torch.Tensor):
                setattr(child, name, value.cpu())
    twin.double()
    with torch.inference_mode():
        result = twin(*layout.join(drawn.skeleton, inputs))
    return [t.to(device) for t in layout.split(result)[1]]
