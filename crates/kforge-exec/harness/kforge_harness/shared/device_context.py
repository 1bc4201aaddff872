"""On which device this process computes, and how a tensor lies there.

A process of the harness computes on one device for its whole life. It is settled once, before anything is drawn or
constructed, so that code which makes tensors need not carry a device along.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from .cuda.driver import NoMemory

_NO_MEMORY = ("CUDA error: out of memory", "CUDA out of memory", "ALLOC_FAILED")
_HELD_BACK = 1 / 64  # of a device's memory
_TF32_OR_LESS = ("tf32", "bf16", "fp16", "fp8")


class _Context:
    device = torch.device("cpu")


def device() -> torch.device:
    return _Context.device


def on_gpu() -> bool:
    return _Context.device.type == "cuda"


def settle(place: str) -> None:
    """`cpu` or `cuda`: the one GPU that this process sees."""
    if place == "cuda":
        torch.cuda.init()
        torch.zeros(1, device="cuda")  # makes torch's context the current one of this thread
        _Context.device = torch.device("cuda", 0)


def is_no_memory(error: BaseException) -> bool:
    """Whether a device had no room, whichever library says so."""
    if isinstance(error, (torch.cuda.OutOfMemoryError, NoMemory)):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error) for said in _NO_MEMORY)


def give_back_unused() -> None:
    """Memory that torch holds back for later calls belongs to the cells of a large problem."""
    if on_gpu():
        unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        if unused > torch.cuda.get_device_properties(0).total_memory * _HELD_BACK:
            torch.cuda.empty_cache()


def give_back_all() -> None:
    """After something found no memory, and once its exception is gone."""
    gc.collect()
    torch.cuda.empty_cache()


def wait() -> None:
    """Until the device has done what it was asked to do."""
    if on_gpu():
        torch.cuda.synchronize()


def allow_precision(mul: str) -> None:
    """Operators of the framework multiply as the contract says: TF32 only where it allows it."""
    if on_gpu():
        allowed = mul in _TF32_OR_LESS
        torch.backends.cuda.matmul.allow_tf32 = allowed
        torch.backends.cudnn.allow_tf32 = allowed


@contextmanager
def new_tensors_here() -> Iterator[None]:
    """Tensors that are made without a device lie on this process's own."""
    with torch.device(_Context.device):
        yield


def brought_here(model: nn.Module) -> nn.Module:
    """Parameters, buffers, and tensors that are plain attributes."""
    if on_gpu():
        model.to(_Context.device)
        for child in model.modules():
            for name, value in list(vars(child).items()):
                if isinstance(value, torch.Tensor) and value.device != _Context.device:
                    setattr(child, name, value.to(_Context.device))
    return model


class _Raw:
    """What torch needs to see device memory that it has not allocated."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__: dict[str, Any] = {
            "data": (address, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 2,
        }


def device_bytes(address: int, nbytes: int) -> torch.Tensor:
    """Device memory at `address` as a flat tensor of bytes."""
    return torch.as_tensor(_Raw(address, nbytes), device=_Context.device)
