"""Loads a problem in KernelBench's form and answers for its reference: sizes, arguments, mode, outputs."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import inspect
import os
import random
import sys
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import nn

from ..shared import device_context, layout
from ..shared.modes import Doubles, of_calls
from . import written
from .precisions import is_float8

_LITTLE_DATA = 1 << 20  # bytes


class ProblemError(Exception):
    """The problem cannot be judged; the text says why and what to do."""


class TooLarge(ProblemError):
    """The device has not enough memory for it, or not now."""


class Problem:
    """A problem file; `module` makes fresh instances of it with other sizes."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.folder = os.path.dirname(self.path)
        try:
            with open(path, encoding="utf-8") as file:
                self.source = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise ProblemError(f"cannot read the problem: {error}") from None
        if self.folder not in sys.path:
            sys.path.insert(0, self.folder)
        self._code = self._compile()
        self.module = self.load({})
        contract = getattr(self.module, "KFORGE", {})
        if not isinstance(contract, dict):
            raise ProblemError("KFORGE must be a dict, for example `KFORGE = dict(mul='tf32')`")
        self.contract: dict[str, Any] = contract

    def _compile(self) -> types.CodeType:
        try:
            return compile(self.source, self.path, "exec")
        except (SyntaxError, ValueError) as error:
            where = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
            raise ProblemError(f"the problem is not valid Python{where}: {error}") from None

    def load(self, sizes: dict[str, int]) -> types.ModuleType:
        """A fresh module with module-level `sizes` put in place of its own."""
        module = types.ModuleType("kforge_problem")
        module.__file__ = self.path
        sys.modules[module.__name__] = module
        run(lambda: exec(self._code, module.__dict__), "importing the problem")
        for name in ("Model", "get_inputs"):
            if not hasattr(module, name):
                raise ProblemError(f"the problem defines no `{name}`: see the form of examples/softmax/problem.py")
        for name, value in sizes.items():
            if not isinstance(getattr(module, name, None), int):
                raise ProblemError(f"`shapes` names {name!r}, which is not a module-level integer of the problem")
            setattr(module, name, value)
        if not (isinstance(module.Model, type) and issubclass(module.Model, nn.Module)):
            raise ProblemError("`Model` is not a class derived from torch.nn.Module")
        return module

    def integers(self) -> dict[str, int]:
        """Module-level sizes, in order of appearance."""
        return {
            name: value for name, value in vars(self.module).items() if type(value) is int and not name.startswith("_")
        }

    def fingerprint(self) -> str:
        """Hash of the source and of every module that it imported from beside itself."""
        digest = hashlib.sha256(self.source.encode())
        for name, module in sorted(sys.modules.items()):
            file = getattr(module, "__file__", None)
            # What was imported has a whole path; torch gives some modules names of files that do not exist.
            if file and name != "kforge_problem" and file.startswith(self.folder + os.sep) and os.path.isfile(file):
                with open(file, "rb") as opened:
                    digest.update(name.encode() + b"\0" + opened.read())
        return digest.hexdigest()


def run(action: Any, what: str) -> Any:
    """Runs the user's code; what it raises becomes a `ProblemError` with the line it came from."""
    try:
        return action()
    except ProblemError:
        raise
    except BaseException as error:
        if device_context.is_no_memory(error):
            raise
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "kforge_harness" not in f.filename]
        at = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
        raise ProblemError(f"{what} failed{at}: {type(error).__name__}: {str(error)[:600]}") from None


def seed_everything(seed: int) -> None:
    device_context.current().seed(seed)
    numpy.random.seed(seed % (1 << 32))
    random.seed(seed)


@dataclass
class Drawn:
    """Arguments of one call: nested values with tensors taken out."""

    skeleton: Any
    tensors: list[torch.Tensor]


def draw_inputs(module: types.ModuleType, seed: int) -> Drawn:
    value = _drawn_here(module, seed)
    if isinstance(value, torch.Tensor):
        value = [value]
    if not isinstance(value, (list, tuple)):
        raise ProblemError(f"get_inputs() returned a {type(value).__name__}: return a list of inputs")
    skeleton, tensors = layout.split(list(value))
    if not tensors:
        raise ProblemError("get_inputs() returned no tensor: there is nothing to compute from")
    for tensor in tensors:
        if tensor.is_complex():
            raise ProblemError(
                f"an input has dtype {tensor.dtype}: let get_inputs() give torch.view_as_real(x), and begin forward with "
                "torch.view_as_complex(x)"
            )
        if tensor.layout != torch.strided or tensor.is_quantized:
            raise ProblemError(
                f"an input has layout {tensor.layout} and dtype {tensor.dtype}: only dense real tensors are supported"
            )
    # With gaps between its elements a tensor reaches a candidate without them: here it is the same tensor.
    here = [tensor.detach().to(device_context.device()) for tensor in tensors]
    return Drawn(skeleton, [tensor if layout.is_dense(tensor) else tensor.contiguous() for tensor in here])


def _drawn_here(module: types.ModuleType, seed: int) -> Any:
    """On a device with memory of its own values are drawn there, which is quicker by far; a problem that insists on the CPU
    is let."""
    if device_context.own_memory():
        try:
            seed_everything(seed)
            with device_context.new_tensors_here():
                return module.get_inputs()
        except Exception as error:
            if device_context.is_no_memory(error):
                raise  # the CPU would draw other values: a set that is made again must be the same
            # tried again below, where a failure is the problem's own
    seed_everything(seed)
    return run(module.get_inputs, "get_inputs()")


def init_inputs(module: types.ModuleType) -> list[Any]:
    value = run(getattr(module, "get_init_inputs", list), "get_init_inputs()")
    if not isinstance(value, (list, tuple)):
        raise ProblemError(f"get_init_inputs() returned a {type(value).__name__}: return a list")
    return list(value)


def construct(module: types.ModuleType, seed: int) -> nn.Module:
    if device_context.own_memory():
        try:
            seed_everything(seed)
            arguments = init_inputs(module)
            with device_context.new_tensors_here():
                return _with_leaves(device_context.brought_here(module.Model(*arguments)))
        except Exception as error:
            if device_context.is_no_memory(error):
                raise
            # as with inputs
    seed_everything(seed)
    made: nn.Module = run(lambda: module.Model(*init_inputs(module)), "constructing Model")
    return _with_leaves(device_context.brought_here(made))


def _with_leaves(model: nn.Module) -> nn.Module:
    """Plain attributes that were computed from parameters become tensors of their own: others cannot be copied. Hooks such as
    those of `torch.nn.utils.weight_norm` compute them again."""
    for child in model.modules():
        for name, value in list(vars(child).items()):
            if isinstance(value, torch.Tensor) and value.grad_fn is not None:
                setattr(child, name, value.detach())
    return model


def forward(
    model: nn.Module,
    drawn: Drawn,
    double: bool = False,
    seed: int = 0,
    pristine: bool = True,
    on_copies: bool = True,
) -> tuple[Any, list[torch.Tensor]]:
    """Outputs of a pristine copy of the reference on copies of the inputs: in-place modules harm nobody.

    Behind what it returns comes what it writes, where that has been found out (`written`)."""
    tensors = [_copied(t, double) for t in drawn.tensors] if on_copies else drawn.tensors
    twin = copy.deepcopy(model) if pristine else model
    if double:
        twin = to_double(twin)
    arguments = layout.join(drawn.skeleton, tensors)
    seed_everything(seed)
    as_doubles = _as_doubles(model, drawn.tensors) if double else contextlib.nullcontext()
    with of_calls(written.uses_autograd(model)), _threads_for(twin, tensors), as_doubles:
        result = twin(*arguments)
    seen = written.of(model)
    skeleton, outputs = split_outputs(result, may_be_none=bool(seen))
    return skeleton, outputs + written.after(twin, tensors, seen)


@contextlib.contextmanager
def _as_doubles(model: nn.Module, tensors: list[torch.Tensor]) -> Iterator[None]:
    """What a reference says of its own dtype holds of doubles: `x.float()` leaves them doubles, and `torch.finfo(x.dtype).min`
    is the number that it means, not the smallest double."""
    tensors = [*tensors, *model.parameters(), *model.buffers()]
    own = {t.dtype for t in tensors if t.is_floating_point() and not is_float8(t.dtype)}
    if not own or torch.float64 in own:
        yield
        return
    finest = min(own, key=lambda dtype: torch.finfo(dtype).eps)
    usual: Any = torch.finfo

    def asked(dtype: torch.dtype | None = None) -> Any:
        return usual(finest if dtype == torch.float64 else dtype or torch.get_default_dtype())

    torch.finfo = asked  # type: ignore[assignment,misc]
    try:
        with Doubles(own | {torch.float32}):
            yield
    finally:
        torch.finfo = usual  # type: ignore[misc]


@contextlib.contextmanager
def _threads_for(model: nn.Module, tensors: list[torch.Tensor]) -> Iterator[None]:
    """One thread for little data: OpenMP's threads spin for each other, and beside another process that takes far longer
    than the work itself (some operators, batch normalisation for one, use all threads for a handful of numbers)."""
    threads = torch.get_num_threads()
    if threads == 1 or sum(t.nbytes for t in (*tensors, *model.parameters(), *model.buffers())) > _LITTLE_DATA:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _copied(tensor: torch.Tensor, double: bool) -> torch.Tensor:
    if double and tensor.is_floating_point():
        return tensor.to(torch.float64, memory_format=torch.preserve_format, copy=True)
    return tensor.clone(memory_format=torch.preserve_format)


def to_double(model: nn.Module) -> nn.Module:
    model.double()
    for child in model.modules():
        for name, value in list(vars(child).items()):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                setattr(child, name, value.double())
    return model


def split_outputs(result: Any, may_be_none: bool = False) -> tuple[Any, list[torch.Tensor]]:
    """Numbers count as tensors without dimensions. A module that writes need not return any."""

    if not may_be_none and not layout.split(result)[1]:
        raise ProblemError(
            f"the output of Model is a {type(result).__name__} without any tensor: there is nothing to compare"
        )
    skeleton, tensors = layout.split(_numbers_as_tensors(result))
    for tensor in tensors:
        if tensor.device.type != device_context.device().type:
            raise ProblemError(
                f"an output is on device {tensor.device}, the inputs are on {device_context.device()}: name no device in the reference"
            )
        if tensor.is_complex():
            raise ProblemError(f"an output has dtype {tensor.dtype}: return torch.view_as_real(y)")
        if tensor.layout != torch.strided or tensor.is_quantized:
            raise ProblemError(
                f"an output has layout {tensor.layout} and dtype {tensor.dtype}: only dense real tensors are supported"
            )
    return skeleton, [tensor.detach() for tensor in tensors]


def input_names(model: nn.Module, drawn: Drawn) -> list[str]:
    """What `forward` calls each tensor among its arguments."""
    named = [p for p in inspect.signature(model.forward).parameters.values() if p.kind != p.VAR_POSITIONAL]
    names: list[str] = []
    for position, item in enumerate(drawn.skeleton):
        name = named[position].name if position < len(named) else f"input {position}"
        count = len(layout.split(layout.join(item, drawn.tensors))[1])
        names += [name] if count == 1 else [f"{name}[{i}]" for i in range(count)]
    return names


def _numbers_as_tensors(item: Any) -> Any:
    if isinstance(item, (bool, int, float)):
        return torch.tensor(item, device=device_context.device())
    if isinstance(item, dict):
        return {key: _numbers_as_tensors(entry) for key, entry in item.items()}
    if isinstance(item, (list, tuple)):
        # A named tuple becomes a plain one: its class may lie in the problem file, which no candidate can see.
        return (list if isinstance(item, list) else tuple)(_numbers_as_tensors(entry) for entry in item)
    return item
