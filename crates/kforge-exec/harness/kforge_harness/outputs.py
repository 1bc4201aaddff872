"""Takes what `forward` returned and copies it into the output slot, or says what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from . import home, layout
from .failure import Failure


@dataclass(frozen=True)
class Expected:
    """What one call must return, and where that is copied to."""

    output_skeleton: Any
    output_fields: list[layout.Field]
    output_views: list[torch.Tensor]
    aliases_allowed: bool


def deliver(result: Any, expected: Expected, input_range: tuple[int, int]) -> None:
    leaves = match(expected.output_skeleton, result, "output")
    for index, leaf in leaves:
        field, view = expected.output_fields[index], expected.output_views[index]
        name = "output" if len(leaves) == 1 else f"output {index}"
        tensor = _plain_tensor(leaf, field, name)
        if tensor.dtype != field.torch_dtype:
            raise Failure("dtype", f"{name}: dtype is {layout.dtype_name(tensor.dtype)}, expected {field.dtype}")
        if list(tensor.shape) != field.shape:
            raise Failure("shape", f"{name}: shape is {list(tensor.shape)}, expected {field.shape}")
        if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)):
            raise Failure(
                "strides", f"{name}: strides {tensor.stride()} make elements share memory; return a dense tensor"
            )
        inside = tensor.numel() > 0 and input_range[0] <= tensor.data_ptr() < input_range[1]
        if inside and not expected.aliases_allowed:
            raise Failure("alias", f"{name}: shares memory with an input; the reference returns a tensor of its own")
        if field.nbytes:
            view.copy_(tensor)


def recheck(result: Any, expected: Expected) -> None:
    """What `forward` returned some time ago must still be what was copied out of it."""
    for index, leaf in match(expected.output_skeleton, result, "output"):
        if isinstance(leaf, torch.Tensor) and leaf.numel():
            same = leaf == expected.output_views[index]
            if not bool((same | (leaf != leaf)).all()):
                raise Failure("late_write", "the returned tensor changed after forward had returned")


def match(skeleton: Any, got: Any, name: str) -> list[tuple[int, Any]]:
    """Pairs each expected tensor with what stands in its place."""
    if isinstance(skeleton, layout.Slot):
        return [(skeleton.index, got)]
    if isinstance(skeleton, dict):
        if not isinstance(got, dict) or set(got) != set(skeleton):
            raise Failure(
                "structure", f"{name}: expected a dict with keys {sorted(map(str, skeleton))}, got {_describe(got)}"
            )
        return [pair for key in skeleton for pair in match(skeleton[key], got[key], f"{name}[{key!r}]")]
    if isinstance(skeleton, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(skeleton):
            raise Failure("structure", f"{name}: expected {len(skeleton)} entries in a tuple, got {_describe(got)}")
        return [pair for i, entry in enumerate(skeleton) for pair in match(entry, got[i], f"{name}[{i}]")]
    if type(got) is not type(skeleton):
        raise Failure("structure", f"{name}: expected {skeleton!r}, got {_describe(got)}")
    return []


def _plain_tensor(leaf: Any, field: layout.Field, name: str) -> torch.Tensor:
    if isinstance(leaf, (bool, int, float)) and not field.shape:
        return torch.tensor(leaf, dtype=field.torch_dtype)
    if isinstance(leaf, (list, tuple, dict)):
        raise Failure("structure", f"{name}: expected one tensor, got {_describe(leaf)}")
    # A subclass may compute on first use, so even its attributes are not asked for.
    if type(leaf) is not torch.Tensor:
        raise Failure("type", f"{name}: expected a plain torch.Tensor, got {_describe(leaf)}")
    if leaf.is_nested or leaf.layout != torch.strided:
        raise Failure("type", f"{name}: expected a dense tensor, got a nested or sparse one")
    if leaf.device.type != home.device().type:
        raise Failure("device", f"{name}: is on {leaf.device}, expected {home.device().type}")
    return leaf


def _describe(value: Any) -> str:
    kind = type(value)
    if isinstance(value, (list, tuple, dict)):
        return f"a {kind.__name__} of {len(value)}"
    return "None" if value is None else f"a {kind.__module__}.{kind.__name__}"
