"""The reference in float64 where the device has no room for it at once.

Doubles take twice the memory of what eager needs. Where they do not fit, the batch is taken in parts, if the reference
treats its parts alike; else the CPU computes, which is slow and right. Where not even the result fits in doubles, each
number is rounded to the nearest float32 once it is there: `narrow`.
"""

from __future__ import annotations

import copy

import torch
from torch import nn

from ..shared import device_context, layout
from ..shared.modes import of_calls
from . import written
from .errors import pieces
from .problem import Drawn, forward, to_double

_FEWEST_PARTS, _MOST_PARTS = 4, 64
# Of the largest value. Another algorithm for a smaller batch rounds otherwise, eager in its own precision too.
_ALIKE, _ALIKE_TO_EAGER = 1e-9, 1e-3


def with_little_room(model: nn.Module, drawn: Drawn, narrow: bool = False) -> list[torch.Tensor]:
    """What fails here fails for want of memory: the reference has not been found unable to run in doubles."""
    try:
        joined = in_parts(model, drawn, narrow)
        return _on_the_cpu(model, drawn, narrow) if joined is None else joined
    except Exception as error:
        raise torch.cuda.OutOfMemoryError(f"no room for the reference in float64, nor in parts ({error})") from None


def in_parts(model: nn.Module, drawn: Drawn, narrow: bool = False) -> list[torch.Tensor] | None:
    """Parts of the batch one after the other; None where the batch is not just many inputs side by side."""
    batch = max((t.shape[0] for t in drawn.tensors if t.dim()), default=0)
    native = as_eager(model, drawn, narrow)
    if batch < 2 * _FEWEST_PARTS or any(t.dim() == 0 or t.shape[0] != batch for t in native):
        return None
    parts = _FEWEST_PARTS
    while parts <= min(_MOST_PARTS, batch):
        try:
            joined = _joined(model, drawn, batch, parts, narrow)
            return joined if _treats_parts_alike(model, drawn, batch, parts, joined, native) else None
        except Exception as error:
            if not device_context.is_no_memory(error):
                return None
        device_context.give_back_all()
        parts *= 2
    return None


def as_eager(model: nn.Module, drawn: Drawn, narrow: bool) -> list[torch.Tensor]:
    """Outputs in the reference's own precision; with `narrow` there is no room for copies of the inputs, which references
    that write to them need: also those that seldom do."""
    if not narrow or any(t.is_inference() for t in drawn.tensors):  # nobody counts the versions of these
        return forward(model, drawn)[1]
    before = [t._version for t in drawn.tensors]
    _skeleton, outputs = forward(model, drawn, on_copies=False)
    if [t._version for t in drawn.tensors] != before:
        raise torch.cuda.OutOfMemoryError("no room for copies of the inputs, which the reference writes to")
    return outputs


def _joined(model: nn.Module, drawn: Drawn, batch: int, parts: int, narrow: bool = False) -> list[torch.Tensor]:
    whole: list[torch.Tensor] = []
    for start, end in _bounds(batch, parts):
        outputs = _of_part(model, drawn, batch, start, end)
        whole = whole or [
            output.new_empty(batch, *output.shape[1:], dtype=kept_as(output, narrow)) for output in outputs
        ]
        for into, output in zip(whole, outputs, strict=True):
            into[start:end] = output.reshape(end - start, *into.shape[1:])  # nothing is stretched to fit
    return whole


def kept_as(exact: torch.Tensor, narrow: bool) -> torch.dtype:
    """Of an output in float64: rounded to the nearest float32 where there is no room for more."""
    return torch.float32 if narrow and exact.dtype == torch.float64 else exact.dtype


def _treats_parts_alike(
    model: nn.Module, drawn: Drawn, batch: int, parts: int, joined: list[torch.Tensor], native: list[torch.Tensor]
) -> bool:
    """Eager shows what is wrong by much; a batch of another size also what a mean over it changes by little."""
    if not all(_close(a, b, _ALIKE_TO_EAGER) for a, b in zip(joined, native, strict=True)):
        return False
    size = batch // parts
    other = size // 2 or 2 * size
    again = _of_part(model, drawn, batch, 0, other)
    # Not from what was joined, which may be rounded.
    first = [_of_part(model, drawn, batch, start, end) for start, end in _bounds(batch, parts) if start < other]
    rows = [torch.cat(outputs)[:other] for outputs in zip(*first, strict=True)]
    return all(_close(a, b, _ALIKE) for a, b in zip(rows, again, strict=True))


def _bounds(batch: int, parts: int) -> list[tuple[int, int]]:
    return [(number * batch // parts, (number + 1) * batch // parts) for number in range(parts)]


def _of_part(model: nn.Module, drawn: Drawn, batch: int, start: int, end: int) -> list[torch.Tensor]:
    tensors = [t[start:end] if t.dim() and t.shape[0] == batch else t for t in drawn.tensors]
    return forward(model, Drawn(drawn.skeleton, tensors), double=True)[1]


def _close(a: torch.Tensor, b: torch.Tensor, alike: float) -> bool:
    if a.shape != b.shape:
        return False
    if not b.is_floating_point():
        return torch.equal(a.to(b.dtype), b)
    if not b.numel():
        return True
    # `amax`, not `max`, which those who watch the reference for places of extreme values would take for the reference's.
    largest = max(float(piece.abs().nan_to_num(0.0, 0.0, 0.0).amax()) for (piece,) in pieces(b))
    return all(
        torch.allclose(mine.to(b.dtype), other, rtol=alike, atol=alike * largest, equal_nan=True)
        for mine, other in pieces(a, b)
    )


def _on_the_cpu(model: nn.Module, drawn: Drawn, narrow: bool) -> list[torch.Tensor]:
    device = drawn.tensors[0].device
    inputs = [t.cpu().double() if t.is_floating_point() else t.cpu() for t in drawn.tensors]
    twin = copy.deepcopy(model).cpu()
    for child in twin.modules():
        for name, value in list(vars(child).items()):
            if isinstance(value, torch.Tensor):
                setattr(child, name, value.cpu())
    twin = to_double(twin)
    with of_calls(written.uses_autograd(model)):
        result = twin(*layout.join(drawn.skeleton, inputs))
    outputs = layout.split(result)[1] + written.after(twin, inputs, written.of(model))
    return [t.to(kept_as(t, narrow)).to(device) for t in outputs]
