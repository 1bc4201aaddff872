"""On which device this process computes, and how a tensor lies there.

A process of the harness computes on one device for its whole life. It is settled once, before anything is drawn or
constructed, so that code which makes tensors need not carry a device along.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from .cpu.device import Cpu
from .device_protocol import Device, says_no_memory

_TF32_OR_LESS = ("tf32", "bf16", "fp16", "fp8")


class _Context:
    kind = "cpu"
    current: Device = Cpu()


def settle(place: str) -> None:
    """The name of a package, and what its device is called: `cpu`, `cuda`, `torch_device:xpu`."""
    kind, _, argument = place.partition(":")
    _Context.current = importlib.import_module(f".{kind}.device", __package__).settle(argument)
    _Context.kind = kind


def compiles_triton(place: str) -> bool:
    """Whether Triton's kernels are compiled for this device; nothing settles on it for this answer."""
    return bool(importlib.import_module(f".{place.partition(':')[0]}.device", __package__).COMPILES_TRITON)


def current() -> Device:
    return _Context.current


def kind() -> str:
    """The name of the packages that know this device."""
    return _Context.kind


def device() -> torch.device:
    return _Context.current.torch_device


def own_memory() -> bool:
    """Whether the device has memory of its own, to which tensors are brought."""
    return _Context.current.own_memory


def is_no_memory(error: BaseException) -> bool:
    """Whether a device had no room."""
    return says_no_memory(error)


def give_back_unused() -> None:
    _Context.current.give_back_unused()


def give_back_all() -> None:
    """After something found no memory, and once its exception is gone."""
    gc.collect()
    _Context.current.give_back_all()


def wait() -> None:
    _Context.current.wait()


def allow_precision(mul: str) -> None:
    """Operators of the framework multiply as the contract says: TF32 only where it allows it."""
    _Context.current.allow_precision(mul in _TF32_OR_LESS)


@contextmanager
def new_tensors_here() -> Iterator[None]:
    """Tensors that are made without a device lie on this process's own."""
    with torch.device(device()):
        yield


def brought_here(model: nn.Module) -> nn.Module:
    """Parameters, buffers, and tensors that are plain attributes."""
    if own_memory():
        model.to(device())
        for child in model.modules():
            for name, value in list(vars(child).items()):
                if isinstance(value, torch.Tensor) and value.device != device():
                    setattr(child, name, value.to(device()))
    return model
