"""What a process of the harness has to know about the device that it computes on.

A kind of device is a package of its name below `shared`, `trusted` and `hostile`: `device.py` here, `referee.py` and
`cell.py` there. `shared/device_context.py` finds the first, `trusted/devices.py` and `hostile/devices.py` the others.
"""

from __future__ import annotations

from typing import Protocol

import torch

_NO_MEMORY = ("CUDA error: out of memory", "CUDA out of memory", "ALLOC_FAILED", "OUT_OF_DEVICE_MEMORY")


class NoDeviceMemory(Exception):
    """A driver had no memory."""


def says_no_memory(error: BaseException) -> bool:
    """Whether a device had no room, whichever library says so."""
    if isinstance(error, (torch.cuda.OutOfMemoryError, NoDeviceMemory)):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error) for said in _NO_MEMORY)


class Device(Protocol):
    """The module `device` of a package has a function `settle`, which makes the process use the device and returns this."""

    torch_device: torch.device
    own_memory: bool  # whether tensors have to be brought there from this process's memory
    tunes_convolutions: bool  # whether `torch.backends.cudnn.benchmark` decides about anything there

    def seed(self, seed: int) -> None:
        """All of torch's generators that are used there."""

    def give_back_unused(self) -> None:
        """Memory that torch holds back for later calls belongs to the cells of a large problem."""

    def give_back_all(self) -> None:
        """After something found no memory."""

    def wait(self) -> None:
        """Until it has done what it was asked to do."""

    def allow_precision(self, tf32_or_less: bool) -> None:
        """Whether operators of the framework may multiply in less than float32."""
