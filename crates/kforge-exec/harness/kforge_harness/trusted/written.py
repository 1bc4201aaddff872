"""What a reference writes besides what it returns: inputs (a cache) and buffers (running statistics).

They are outputs like all others, behind those that are returned: inputs first, then buffers. What a module writes is found
once, by calling it, and marked on the module, so that whoever runs it or a copy of it gets these outputs too.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..shared import device_context, layout
from ..shared.modes import of_calls
from ..shared.module_state import State

if TYPE_CHECKING:
    from .problem import Drawn

_MARK = "_kforge_written"
_AUTOGRAD = "_kforge_autograd"


@dataclass(frozen=True)
class Written:
    """Numbers of input tensors, and names of buffers and parameters, each in their order."""

    inputs: tuple[int, ...] = ()
    buffers: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.inputs or self.buffers)

    def __or__(self, other: Written) -> Written:
        # Names in the order of registration, which both have them in.
        more = tuple(name for name in other.buffers if name not in self.buffers)
        return Written(tuple(sorted({*self.inputs, *other.inputs})), self.buffers + more)


def of(model: nn.Module) -> Written:
    found: Written = vars(model).get(_MARK, Written())
    return found


def mark(model: nn.Module, seen: Written) -> None:
    vars(model)[_MARK] = seen  # copies of the module have it too


def settle(model: nn.Module, draws: Iterable[Drawn]) -> None:
    """Finds out what calls on these inputs write, and marks the module with it."""
    seen = Written()
    for drawn in draws:
        seen = seen | _find_with_autograd(model, drawn)
    mark(model, seen)


def _find_with_autograd(model: nn.Module, drawn: Drawn) -> Written:
    """The same for a module that itself computes gradients, which inference mode does not let it."""
    try:
        return find(model, drawn)
    except RuntimeError as error:
        if uses_autograd(model) or device_context.is_no_memory(error):
            raise
        mark_autograd(model, True)
        try:
            return find(model, drawn)
        except Exception:
            mark_autograd(model, False)
            raise error from None


def uses_autograd(model: nn.Module) -> bool:
    return bool(vars(model).get(_AUTOGRAD, False))


def mark_autograd(model: nn.Module, uses: bool) -> None:
    vars(model)[_AUTOGRAD] = uses


def settle_also(model: nn.Module, other: nn.Module, drawn: Drawn) -> None:
    """With other weights: what one of the two writes counts for both."""
    seen = of(model)
    try:
        seen = seen | find(other, drawn)
    except Exception as error:
        if device_context.is_no_memory(error):
            raise
        # It does not bear such weights, and is not judged with them.
    mark(model, seen)
    mark(other, seen)


def find(model: nn.Module, drawn: Drawn) -> Written:
    """What one call of a copy writes. Versions show what was written with the value that was there, in this draw;
    values what was written behind torch's back, or by binding another tensor to a buffer's name."""
    tensors = [tensor.clone(memory_format=torch.preserve_format) for tensor in drawn.tensors]
    twin = copy.deepcopy(model)
    before = _tensors_of(twin)
    versions = [_version(tensor) for tensor in (*tensors, *before.values())]
    with of_calls(uses_autograd(model)):
        twin(*layout.join(drawn.skeleton, tensors))
    moved = [now != then for now, then in zip(map(_version, (*tensors, *before.values())), versions, strict=True)]
    inputs = [
        index
        for index, (tensor, was) in enumerate(zip(tensors, drawn.tensors, strict=True))
        if moved[index] or not _same_bits(tensor, was)
    ]
    initial, after = _tensors_of(model), _tensors_of(twin)
    buffers = []
    for (name, tensor), by_version in zip(before.items(), moved[len(tensors) :], strict=True):
        now = after.get(name)
        if now is not None and ((by_version and now is tensor) or not _same_bits(now, initial[name])):
            buffers.append(name)
    return Written(tuple(inputs), tuple(buffers))


def after(twin: nn.Module, tensors: list[torch.Tensor], seen: Written) -> list[torch.Tensor]:
    """The outputs that a call of `twin` on `tensors` has written."""
    now = _tensors_of(twin) if seen.buffers else {}
    return [tensors[index].detach() for index in seen.inputs] + [now[name].detach() for name in seen.buffers]


def before(model: nn.Module, drawn: Drawn) -> list[torch.Tensor]:
    """What was there, in the order of `after`."""
    seen = of(model)
    now = _tensors_of(model) if seen.buffers else {}
    return [drawn.tensors[index] for index in seen.inputs] + [now[name].detach() for name in seen.buffers]


def initial_state(twin: nn.Module) -> State:
    """To call a module twice from where it began."""
    return State(twin, list(of(twin).buffers))


def redraw(model: nn.Module, seed: int) -> nn.Module:
    """A copy whose written buffers begin with other numbers: who sets a sum that began with zero must be told from who adds to it.

    Weights were drawn again before, and running statistics with them."""
    from .draw import at_scale

    made = copy.deepcopy(model)
    generator = torch.Generator(device_context.device()).manual_seed(seed)
    buffers = dict(made.named_buffers())
    with torch.no_grad():
        for name in of(made).buffers:
            tensor = buffers.get(name)
            known = name.rpartition(".")[2] in ("running_mean", "running_var")
            if tensor is None or known or not tensor.is_floating_point() or not tensor.numel():
                continue
            noise = torch.randn(tensor.shape, generator=generator, device=tensor.device).to(tensor.dtype)
            tensor.copy_(at_scale(tensor, noise))
    return made


def names(model: nn.Module, skeleton: Any, seen: Written) -> list[str]:
    """What people call them: `input 3 (k_cache)`, `buffer running_mean`."""
    parameters = dict(model.named_parameters())
    called = [_input_name(model, skeleton, index) for index in seen.inputs]
    return called + [f"{'parameter' if name in parameters else 'buffer'} {name}" for name in seen.buffers]


def note(called: list[str]) -> str:
    *most, last = called
    several = f"{', '.join(most)} and {last}" if most else last
    return f"the reference writes {several}: {'they are' if most else 'it is'} compared too"


def held(fields: list[layout.Field], inputs: list[int]) -> list[tuple[int, int]]:
    """Parts of a region of inputs, as bytes from and to, that no call may change: all but the written ones."""
    parts: list[tuple[int, int]] = []
    for index, field in enumerate(fields):
        start, end = field.offset, field.offset + (field.nbytes + layout.ALIGN - 1) // layout.ALIGN * layout.ALIGN
        if index in inputs or start == end:
            continue
        if parts and parts[-1][1] == start:
            start = parts.pop()[0]
        parts.append((start, end))
    return parts


def _input_name(model: nn.Module, skeleton: Any, index: int) -> str:
    for position, entry in enumerate(skeleton):
        if any(slot == layout.Slot(index) for slot in _slots(entry)):
            part = "" if isinstance(entry, layout.Slot) else "a tensor in "
            return f"{part}input {position}{_argument(model, position)}"
    return f"input {index}"


def _slots(entry: Any) -> list[layout.Slot]:
    if isinstance(entry, layout.Slot):
        return [entry]
    inner = list(entry.values()) if isinstance(entry, dict) else entry if isinstance(entry, (list, tuple)) else []
    return [slot for part in inner for slot in _slots(part)]


def _argument(model: nn.Module, position: int) -> str:
    """What `forward` calls it."""
    try:
        found = list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):
        return ""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if position >= len(found) or any(p.kind not in positional for p in found[: position + 1]):
        return ""
    return f" ({found[position].name})"


def _tensors_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version  # nobody counts the versions of these


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Of numbers that torch may not be able to compare, and NaN, which differs from itself."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(_bytes(a), _bytes(b))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
