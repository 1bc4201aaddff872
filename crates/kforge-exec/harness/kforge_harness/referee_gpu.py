"""The referee's hands on a GPU: it lays inputs, takes outputs and holds them against truths that lie there too."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import time
from functools import cached_property, partial
from types import ModuleType
from typing import Any

import torch

from . import cuda_driver, floor, home
from .lanes import Digest, Flush, Lane, MakeSlot, device_slot, host_slot
from .places import Plan
from .problem import Problem, construct, draw_inputs, forward
from .sets import Reference
from .shelf import DeviceShelf

_SHELF_SHARE = 0.2  # of the device's memory, for sets that are kept at hand
_LANE_SHARE = 0.05  # for the places of one lane; some four of them are there at once
_MOST_PLACES = 16
_GIB = 1 << 30
_CONTEXTS = 2 * _GIB  # the driver's own, in each process

WORDS = frozenset(
    {"lane", "lay", "shut", "reveal", "export", "take", "unchanged", "still_there", "wipe", "alive", "device"}
)


def shelf(tight: bool) -> DeviceShelf:
    return DeviceShelf(0 if tight else int(_SHELF_SHARE * torch.cuda.get_device_properties(0).total_memory))


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
        needed = total if home.is_no_memory(error) else needed
    with contextlib.suppress(Exception):  # of a kernel that faulted
        home.give_back_all()
    return {"needed_bytes": needed, "memory_bytes": total}


def _needed(module: ModuleType) -> int:
    drawn = draw_inputs(module, 0)
    model = construct(module, 0)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    _, outputs = forward(model, drawn, pristine=False)
    home.wait()
    peak = torch.cuda.max_memory_allocated()
    taken, given = _nbytes(drawn.tensors), _nbytes(outputs)
    return _room_for(taken, given, weights=before - taken, between=peak - before - taken - given)


def _room_for(inputs: int, outputs: int, weights: int, between: int) -> int:
    """Slots for two cells and what both allocate, a copy of an output, a set, and the reference in float64 with a truth beside
    its own. By count; scale_relu with 6 GiB of inputs and as much of outputs was seen to take 98 (docs/gpu.md)."""
    return _CONTEXTS + 5 * inputs + 9 * outputs + 4 * max(between, 0) + 5 * max(weights, 0)


def _nbytes(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def too_large(reference: Reference | None, error: BaseException) -> str:
    sizes, left = "", ""
    with contextlib.suppress(Exception):  # a device that cannot even say it, or a problem that only pretends
        free, total = torch.cuda.mem_get_info()
        left = f"; {free / _GIB:.1f} of {total / _GIB:.1f} GiB are free"
    if reference is not None and reference.variants:
        inputs, outputs = reference.input_bytes / _GIB, reference.output_bytes / _GIB
        sizes = (
            f": its inputs take {inputs:.1f} GiB and its outputs {outputs:.1f} GiB, and judging holds several of both"
        )
    return (
        f"the GPU has not enough memory to judge this problem{sizes}{left}. "
        "Make the problem smaller, take a GPU with more memory, or end what else uses this one (nvidia-smi) "
        f"({str(error).splitlines()[0][:200] if str(error) else type(error).__name__})"
    )


class Desk:
    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._driver = cuda_driver.load()
        self._facts = self._driver.facts()
        self._flush = Flush(self._facts["l2_bytes"])
        self._lanes: dict[int, Lane] = {}
        self._numbers = itertools.count()
        self._make_slot, self._staged = self._how_to_share()
        self._plan = Plan(reference.input_bytes, reference.output_bytes, self._places())
        self._digest = Digest()
        self._last_taken = -1  # the lane whose outputs are in `_taken`

    def _how_to_share(self) -> tuple[MakeSlot, str]:
        """A way to make slots, and why it is not the device's own memory where that cannot be shared."""
        if os.environ.get("KFORGE_GPU_SLOTS") == "host":
            return host_slot, "KFORGE_GPU_SLOTS asks for it"
        try:
            file, _size = self._driver.allocate(1)
        except cuda_driver.NoMemory:
            raise
        except cuda_driver.DriverError as error:
            return host_slot, f"the driver does not share device memory between processes ({error})"
        os.close(file)
        return partial(device_slot, self._driver), ""

    def _places(self) -> int:
        """How many calls can be made in a row: short ones need several, so that the clock outside resolves them."""
        one = self._reference.input_bytes + 2 * self._reference.output_bytes  # outputs are copied
        memory = torch.cuda.get_device_properties(0).total_memory
        return int(min(max(_LANE_SHARE * memory // one, 1), _MOST_PLACES))

    @cached_property
    def _taken(self) -> list[torch.Tensor]:
        """A private copy of the outputs that were handed over last, by whichever lane."""
        return self._plan.outputs(torch.zeros(self._plan.output_size, dtype=torch.uint8, device=home.device()))

    def perform(self, request: dict[str, Any], attached: list[int]) -> tuple[dict[str, Any], list[int]]:
        """An answer, and descriptors that go with it and are then no longer needed here."""
        word = request["do"]
        if word == "lane":
            # Whoever used these has ended.
            for gone in request["gone"]:
                self._release(gone)
            home.give_back_unused()
            lane, number = Lane(self._plan, self._make_slot, self._taken, self._digest), next(self._numbers)
            self._lanes[number] = lane
            torch.cuda.synchronize()
            return {"lane": number}, lane.files
        if word == "alive":
            torch.ones(1024, device="cuda").sum().item()
            return {"done": True}, []
        if word == "export":
            region = self._region(request["id"])
            with mmap.mmap(attached[0], 0) as mapped:
                torch.frombuffer(mapped, dtype=torch.uint8, count=region.numel()).copy_(region)
            os.close(attached[0])
            return {"done": True}, []
        if word == "device":
            described = self._describe()
            home.give_back_unused()
            return described, []
        return self._at_lane(self._lanes[request["lane"]], request), []

    def _release(self, number: int) -> None:
        lane = self._lanes.pop(number, None)
        if lane is not None:
            lane.release()

    def _at_lane(self, lane: Lane, request: dict[str, Any]) -> dict[str, Any]:
        word, done = request["do"], True
        regions = [self._region(name) for name in request.get("ids", [])]
        if word == "reveal":
            home.wait()  # a set that had to be made again is no part of anybody's time
            # On the clock of the whole machine, and before the first input can be seen: whatever a cell does with one
            # of them takes place after this.
            began = time.monotonic_ns()
            lane.lay(regions)
            if request["cold"]:
                self._flush()
            lane.open()
            return {"began_ns": began}
        if word == "lay":
            lane.lay(regions)
            lane.poison()
            if request["cold"]:
                self._flush()
        elif word == "shut":
            lane.shut(request["count"])
        elif word == "wipe":
            lane.wipe()
        elif word == "take":
            self._last_taken = request["lane"]
            done = lane.take(request["count"])
        elif word == "still_there":
            done = lane.still_there(request["count"])
        else:
            done = lane.unchanged(regions)
        torch.cuda.synchronize()
        return {"done": done}

    @property
    def is_crowded(self) -> bool:
        """Whether the device has room for one call at a time: what is not in use is needed elsewhere."""
        return self._plan.count == 1

    def taken(self, lane: int, place: int) -> torch.Tensor:
        assert lane == self._last_taken, "another lane's output was taken since"
        return self._taken[place]

    def _region(self, name: str) -> torch.Tensor:
        made = self._reference.present(name)
        store = self._reference.store_of(made)
        assert isinstance(store, DeviceShelf)
        return store.region(f"{name}.in")

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
