"""The reference in float64, also where the device has no room for it at once.

Doubles take twice the memory of what eager needs. Where they do not fit, the batch is taken in parts, if the reference
treats its parts alike; else the CPU computes, which is slow and right.
"""

from __future__ import annotations

import copy

import torch
from torch import nn

from . import layout
from .errors import pieces
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
            joined = _joined(model, drawn, batch, parts)
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            parts *= 2
            continue
        except Exception:
            return None
        alike = all(_close(a, b) for a, b in zip(joined, native, strict=True))
        return joined if alike else None
    return None


def _joined(model: nn.Module, drawn: Drawn, batch: int, parts: int) -> list[torch.Tensor]:
    whole: list[torch.Tensor] = []
    for number in range(parts):
        start, end = number * batch // parts, (number + 1) * batch // parts
        _skeleton, outputs = forward(model, _part(drawn, batch, start, end), double=True)
        whole = whole or [output.new_empty(batch, *output.shape[1:]) for output in outputs]
        for into, output in zip(whole, outputs, strict=True):
            into[start:end] = output.view(end - start, *into.shape[1:])  # nothing is stretched to fit
    return whole


def _part(drawn: Drawn, batch: int, start: int, end: int) -> Drawn:
    tensors = [t[start:end] if t.dim() and t.shape[0] == batch else t for t in drawn.tensors]
    return Drawn(drawn.skeleton, tensors)


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape:
        return False
    if not b.is_floating_point():
        return torch.equal(a.to(b.dtype), b)
    if not b.numel():
        return True
    largest = max(float(piece.abs().nan_to_num(0.0, 0.0, 0.0).max()) for (piece,) in pieces(b))
    return all(
        torch.allclose(mine.to(b.dtype), native, rtol=_ALIKE, atol=_ALIKE * largest, equal_nan=True)
        for mine, native in pieces(a, b)
    )


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
