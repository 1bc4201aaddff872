"""Looks at what `forward` returned, and says where it lies: the trusted side reads it there.

Nothing here is believed. The checks give a candidate a helpful answer; whoever gets round them is read at the address it
names, as the dtype and shape that are expected, and compared.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..shared import device_context, layout
from .failure import Failure


@dataclass(frozen=True)
class Expected:
    """What one call must return."""

    output_skeleton: Any
    output_fields: list[layout.Field]
    aliases_allowed: bool
    shared_allowed: list[bool]


def checked(result: Any, expected: Expected, input_range: tuple[int, int]) -> list[torch.Tensor]:
    """The tensors of a result in the order of their fields; a `Failure` says what is wrong with one."""
    leaves = match(expected.output_skeleton, result, "output")
    found: list[Any] = [None] * len(leaves)
    for index, leaf in leaves:
        field = expected.output_fields[index]
        name = "output" if len(leaves) == 1 else f"output {index}"
        tensor = as_expected(leaf, field, name)
        if layout.overlaps(tensor) and not expected.shared_allowed[index]:
            raise Failure(
                "strides", f"{name}: strides {tensor.stride()} make elements share memory; return a dense tensor"
            )
        inside = tensor.numel() > 0 and input_range[0] <= tensor.data_ptr() < input_range[1]
        if inside and not expected.aliases_allowed:
            raise Failure("alias", f"{name}: shares memory with an input; the reference returns a tensor of its own")
        found[index] = tensor
    return found


def as_expected(leaf: Any, field: layout.Field, name: str) -> torch.Tensor:
    tensor = _plain_tensor(leaf, field, name).resolve_neg()  # a sign that is only noted is not in the memory
    if tensor.dtype != field.torch_dtype:
        raise Failure("dtype", f"{name}: dtype is {layout.dtype_name(tensor.dtype)}, expected {field.dtype}")
    if list(tensor.shape) != field.shape:
        raise Failure("shape", f"{name}: shape is {list(tensor.shape)}, expected {field.shape}")
    return tensor


def claims(rows: list[list[torch.Tensor]], segment_of: Callable[[int], tuple[int, int]]) -> bytes:
    """Where the tensors of several calls lie: segment, offset in it, strides in elements."""
    parts = bytearray()
    for row in rows:
        for tensor in row:
            segment, offset = segment_of(tensor.data_ptr())
            parts += struct.pack(f"<QQ{tensor.dim()}q", segment, offset, *tensor.stride())
    return bytes(parts)


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


def copied(result: Any, wanted: Callable[[torch.Tensor], bool]) -> Any:
    """The same structure with a copy of every tensor for which that is wanted."""
    if isinstance(result, torch.Tensor):
        return result.clone() if wanted(result) else result
    if isinstance(result, dict):
        return {key: copied(entry, wanted) for key, entry in result.items()}
    if isinstance(result, (list, tuple)):
        walked = [copied(entry, wanted) for entry in result]
        return walked if isinstance(result, list) else tuple(walked)
    return result


def _plain_tensor(leaf: Any, field: layout.Field, name: str) -> torch.Tensor:
    if isinstance(leaf, (bool, int, float)) and not field.shape:
        return torch.tensor(leaf, dtype=field.torch_dtype, device=device_context.device())
    if isinstance(leaf, (list, tuple, dict)):
        raise Failure("structure", f"{name}: expected one tensor, got {_describe(leaf)}")
    # A subclass may compute on first use, so even its attributes are not asked for.
    if type(leaf) is not torch.Tensor:
        raise Failure("type", f"{name}: expected a plain torch.Tensor, got {_describe(leaf)}")
    if leaf.is_nested or leaf.layout != torch.strided:
        raise Failure("type", f"{name}: expected a dense tensor, got a nested or sparse one")
    if leaf.device.type != device_context.device().type:
        raise Failure("device", f"{name}: is on {leaf.device}, expected {device_context.device().type}")
    return leaf


def _describe(value: Any) -> str:
    kind = type(value)
    if isinstance(value, (list, tuple, dict)):
        return f"a {kind.__name__} of {len(value)}"
    return "None" if value is None else f"a {kind.__module__}.{kind.__name__}"
