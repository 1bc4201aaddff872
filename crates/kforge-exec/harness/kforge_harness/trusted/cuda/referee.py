"""The referee's hands on an NVIDIA GPU: slots in its own memory, results where a cell left them, its clocks and its floor."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from types import ModuleType
from typing import Any

import torch

from ...shared import device_context
from ...shared.cuda import driver as cuda_driver
from .. import written
from ..device_store import DeviceStore
from ..problem import Problem, construct, draw_inputs, forward
from ..sets import Reference
from ..torch_device import referee as torch_referee
from ..torch_device.results import Unreadable
from ..torch_device.slot_pool import MakeResults, MakeSlot, host_slot
from . import floor
from .results import Results
from .slots import device_slot

_DEVICE_STORE_SHARE = 0.2  # of the device's memory, for sets that are kept at hand
_GIB = 1 << 30
_CONTEXTS = 2 * _GIB  # the driver's own, in each process


def key_parts() -> list[str]:
    """By which what is kept of a problem on this device is told from what is kept on others."""
    return [torch.cuda.get_device_name(0)]


def after_answer() -> None:
    """Nothing of ours runs then."""


def device_store(tight: bool) -> DeviceStore:
    return DeviceStore(0 if tight else int(_DEVICE_STORE_SHARE * torch.cuda.get_device_properties(0).total_memory))


def free_bytes() -> int:
    return int(torch.cuda.mem_get_info()[0])


def look(problem: Problem, shapes: list[dict[str, int]]) -> dict[str, int]:
    """What judging a problem holds of the device at its worst, so that those beside it leave that much."""
    total = torch.cuda.get_device_properties(0).total_memory
    needed = 0
    try:
        for sizes in ({}, *shapes):
            needed = max(needed, _needed(problem.load(sizes)))
    except Exception as error:
        # Where not even a call fits beside others, it needs all; whatever else is wrong is told when it is opened.
        needed = total if device_context.is_no_memory(error) else needed
    with contextlib.suppress(Exception):  # of a kernel that faulted
        device_context.give_back_all()
    return {"needed_bytes": needed, "memory_bytes": total}


def _needed(module: ModuleType) -> int:
    drawn = draw_inputs(module, 0)
    model = construct(module, 0)
    written.settle(model, [drawn])
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    _, outputs = forward(model, drawn, pristine=False)
    device_context.wait()
    peak = torch.cuda.max_memory_allocated()
    taken, given = _nbytes(drawn.tensors), _nbytes(outputs)
    return _room_for(taken, given, weights=before - taken, between=peak - before - taken - given)


def _room_for(inputs: int, outputs: int, weights: int, between: int) -> int:
    """Slots for two cells and what both allocate, a copy of an output, a set, and the reference in float64 with a truth beside
    its own. By count; scale_relu with 6 GiB of inputs and as much of outputs was seen to take
    98 (docs/measurements/h200.md)."""
    return _CONTEXTS + 5 * inputs + 9 * outputs + 4 * max(between, 0) + 5 * max(weights, 0)


def _nbytes(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def too_large(reference: Reference | None, error: BaseException) -> str:
    left = ""
    with contextlib.suppress(Exception):  # a device that cannot even say it, or a problem that only pretends
        free, total = torch.cuda.mem_get_info()
        left = f"; {free / _GIB:.1f} of {total / _GIB:.1f} GiB are free"
    return torch_referee.too_large_for("GPU", left, reference, error)


class Desk(torch_referee.Desk):
    unreadable = (Unreadable, cuda_driver.DriverError)

    def __init__(self, reference: Reference) -> None:
        self._driver = cuda_driver.load()
        self._facts = self._driver.facts()
        super().__init__(reference)

    def _flush_bytes(self) -> int:
        """Twice the size of the level-2 cache."""
        return max(2 * self._facts["l2_bytes"], torch_referee.SMALLEST_FLUSH)

    def _how_to_share(self) -> tuple[MakeSlot, MakeResults, str]:
        results = partial(Results, self._driver)
        try:
            file, _size = self._driver.allocate(1)
        except cuda_driver.NoMemory:
            raise
        except cuda_driver.DriverError as error:
            return host_slot, results, f"the driver does not share device memory between processes ({error})"
        os.close(file)
        return partial(device_slot, self._driver), results, ""

    def _memory_bytes(self) -> int:
        return int(torch.cuda.get_device_properties(0).total_memory)

    def _describe(self) -> dict[str, Any]:
        properties = torch.cuda.get_device_properties(0)
        compulsory, note = floor.compulsory_bytes(self._reference)
        return {
            **self._facts,
            "name": properties.name,
            "capability": [properties.major, properties.minor],
            "memory_bytes": properties.total_memory,
            "cuda": torch.version.cuda or "",
            "flush_bytes": self._flush.nbytes,
            "places": self._plan.count,
            "staged": self._staged,
            "compulsory_bytes": compulsory,
            "compulsory_note": note,
        }


def desk(reference: Reference) -> Desk:
    return Desk(reference)
