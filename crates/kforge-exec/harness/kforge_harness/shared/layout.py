"""How tensors lie in shared memory: one place for the referee that writes them and the cell that reads them."""

from __future__ import annotations

import base64
import pickle
from dataclasses import dataclass
from typing import Any

import torch

ALIGN = 256


@dataclass(frozen=True)
class Slot:
    """Stands for tensor number `index` in a nested structure."""

    index: int


@dataclass(frozen=True)
class Field:
    """One tensor in a region."""

    dtype: str
    shape: list[int]
    stride: list[int]
    offset: int
    nbytes: int

    @property
    def torch_dtype(self) -> torch.dtype:
        found: torch.dtype = getattr(torch, self.dtype)
        return found

    def view(self, memory: memoryview | bytearray | torch.Tensor) -> torch.Tensor:
        """The tensor over this region's memory: a buffer of this machine, or bytes on a device."""
        if isinstance(memory, torch.Tensor):
            part = memory[self.offset : self.offset + self.nbytes]
            return part.view(self.torch_dtype).as_strided(self.shape, self.stride)
        if self.nbytes == 0:
            return torch.empty(self.shape, dtype=self.torch_dtype)
        flat = torch.frombuffer(
            memory, dtype=self.torch_dtype, count=self.nbytes // self.torch_dtype.itemsize, offset=self.offset
        )
        return flat.as_strided(self.shape, self.stride)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def plan(tensors: list[torch.Tensor]) -> tuple[list[Field], int]:
    """Places for `tensors`, one after the other, and the size of the region."""
    fields: list[Field] = []
    offset = 0
    for tensor in tensors:
        dense = is_dense(tensor)
        stride = list(tensor.stride()) if dense else list(torch.empty(tensor.shape, device="meta").stride())
        nbytes = tensor.numel() * tensor.element_size()
        fields.append(Field(dtype_name(tensor.dtype), list(tensor.shape), stride, offset, nbytes))
        offset += (nbytes + ALIGN - 1) // ALIGN * ALIGN
    return fields, max(offset, ALIGN)


def write(fields: list[Field], memory: bytearray | memoryview | torch.Tensor, tensors: list[torch.Tensor]) -> None:
    for field, tensor in zip(fields, tensors, strict=True):
        if field.nbytes:
            field.view(memory).copy_(tensor)


def as_region(fields: list[Field], size: int, tensors: list[torch.Tensor]) -> torch.Tensor | None:
    """The bytes of a tensor that fills a region by itself: a large one need not lie in memory twice."""
    if len(tensors) != 1 or fields[0].nbytes != size or not tensors[0].is_contiguous():
        return None
    tensor = tensors[0]
    if tensor.untyped_storage().nbytes() != size:  # a part of something larger would keep all of that
        return None
    return tensor.reshape(-1).view(torch.uint8)


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether a strided tensor covers its span exactly, so that its strides can be kept."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def split(value: Any) -> tuple[Any, list[torch.Tensor]]:
    """A nested structure with tensors replaced by `Slot`s, and the tensors."""
    tensors: list[torch.Tensor] = []
    return _taken_out(value, tensors), tensors


# Not inside of `split`: a function that calls itself is a cycle there, which would hold the tensors until it is collected.
def _taken_out(item: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(item, torch.Tensor):
        tensors.append(item)
        return Slot(len(tensors) - 1)
    if isinstance(item, dict):
        return {key: _taken_out(entry, tensors) for key, entry in item.items()}
    if isinstance(item, (list, tuple)):
        walked = [_taken_out(entry, tensors) for entry in item]
        if isinstance(item, list):
            return walked
        return type(item)(*walked) if hasattr(item, "_fields") else tuple(walked)
    return item


def join(skeleton: Any, tensors: list[torch.Tensor]) -> Any:
    """The reverse of `split`."""
    if isinstance(skeleton, Slot):
        return tensors[skeleton.index]
    if isinstance(skeleton, dict):
        return {key: join(entry, tensors) for key, entry in skeleton.items()}
    if isinstance(skeleton, list):
        return [join(entry, tensors) for entry in skeleton]
    if isinstance(skeleton, tuple):
        joined = [join(entry, tensors) for entry in skeleton]
        return type(skeleton)(*joined) if hasattr(skeleton, "_fields") else tuple(joined)
    return skeleton


def pack(value: Any) -> str:
    """Text form of a value that goes from the referee to a cell; nothing is ever unpacked in the other direction."""
    data = pickle.dumps(value)
    if b"kforge_problem" in data:
        raise TypeError("a value's class is defined in the problem file, which candidates cannot see: pass plain data")
    return base64.b64encode(data).decode()


def unpack(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))


def overlaps(tensor: torch.Tensor) -> bool:
    """Whether some element of a strided tensor can be reached by two indices; may err towards yes for odd strides."""
    span = 1
    for stride, size in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n != 1):
        if tensor.numel() and stride < span:
            return True
        span += (size - 1) * stride
    return False
