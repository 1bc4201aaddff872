"""The referee's hands on a GPU: it lays inputs, takes outputs and holds them against truths that lie there too."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import time
from functools import partial
from types import ModuleType
from typing import Any

import torch

from ...shared import device_context, layout
from ...shared.cuda import driver as cuda_driver
from ...shared.slot_layout import Plan
from .. import written
from ..device_store import DeviceStore
from ..problem import Drawn, Problem, construct, draw_inputs, forward
from ..sets import Reference
from . import floor
from .results import Unreadable
from .slot_pool import Flush, MakeSlot, SlotPool, device_slot, host_slot

_DEVICE_STORE_SHARE = 0.2  # of the device's memory, for sets that are kept at hand
_POOL_SHARE = 0.05  # for the places of one pool; some four of them are there at once
_MOST_PLACES = 64
_GIB = 1 << 30
_CONTEXTS = 2 * _GIB  # the driver's own, in each process


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
        self._pools: dict[int, SlotPool] = {}
        self._numbers = itertools.count()
        self._make_slot, self._staged = self._how_to_share()
        self._plan = Plan(reference.input_bytes, reference.output_bytes, self._places())
        self._private: dict[tuple[int, int], torch.Tensor] = {}  # copies of results, by side and place
        self._fresh: list[torch.Tensor] = []  # regions of the inputs that were drawn last

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
        return int(min(max(_POOL_SHARE * memory // one, 1), _MOST_PLACES))

    def taken(self, side: int, place: int) -> torch.Tensor:
        """A private copy of the results of one call: the candidate's or the baseline's."""
        if (side, place) not in self._private:
            size = self._reference.output_bytes
            self._private[side, place] = torch.zeros(size, dtype=torch.uint8, device=device_context.device())
        return self._private[side, place]

    def forget_fresh(self) -> None:
        self._fresh = []

    def lay_out(self, fields: list[layout.Field], drawn: list[Drawn]) -> None:
        """Inputs of a row as they will lie in places."""
        size = self._reference.input_bytes
        for one in drawn:
            region = torch.zeros(size, dtype=torch.uint8, device=device_context.device())
            layout.write(fields, region, one.tensors)
            self._fresh.append(region)
        device_context.wait()

    def perform(self, request: dict[str, Any], attached: list[int]) -> tuple[dict[str, Any], list[int]]:
        """An answer, and descriptors that go with it and are then no longer needed here."""
        word = request["do"]
        if word == "lane":
            # Whoever used these has ended.
            for gone in request["gone"]:
                self._release(gone)
            device_context.give_back_unused()
            pool = SlotPool(self._driver, self._plan, self._make_slot, bool(self._staged))
            number = next(self._numbers)
            self._pools[number] = pool
            torch.cuda.synchronize()
            return {"lane": number}, pool.files
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
            device_context.give_back_unused()
            return described, []
        return self._at_pool(self._pools[request["lane"]], request, attached), []

    def _release(self, number: int) -> None:
        pool = self._pools.pop(number, None)
        if pool is not None:
            pool.release()

    def _at_pool(self, pool: SlotPool, request: dict[str, Any], attached: list[int]) -> dict[str, Any]:
        word = request["do"]
        if word in ("reveal", "lay"):
            return self._lay(pool, request)
        if word == "take":
            return self._take(pool, request, attached)
        if word == "stamp":
            made: dict[str, Any] = pool.results.stamp(request["fill"])
            torch.cuda.synchronize()
            return made
        done = True
        if word == "shut":
            pool.shut(request["count"])
        elif word == "wipe":
            pool.wipe()
        elif word == "hold":
            pool.results.hold()
        elif word == "held":
            done = pool.results.held_are_intact()
        elif word == "left":
            done = pool.results.left_are_intact()
        else:
            done = pool.unchanged(self._regions(request), self._held(request))
        torch.cuda.synchronize()
        return {"done": done}

    def _lay(self, pool: SlotPool, request: dict[str, Any]) -> dict[str, Any]:
        regions = self._regions(request)
        device_context.wait()  # a set that had to be made again is no part of anybody's time
        # On the clock of the whole machine, and before the first input can be seen: whatever a cell does with one
        # of them takes place after this.
        began = time.monotonic_ns()
        pool.lay(regions)
        if request["cold"]:
            self._flush()
        if request["do"] == "reveal":
            pool.open()
        else:
            device_context.wait()
        return {"began_ns": began}

    def _take(self, pool: SlotPool, request: dict[str, Any], attached: list[int]) -> dict[str, Any]:
        """Copies results out of a cell's memory. When that is done the time of their row ends."""
        variant = self._reference.variants[request["variant"]]
        fields = variant.output_fields
        try:
            pool.results.learn(request["cell"], request["segments"], attached)
            views = pool.results.views(fields, variant.shared_outputs, request["calls"])
            for place, call in enumerate(views):
                private = self.taken(request["side"], place)
                for field, view in zip(fields, call, strict=True):
                    if field.nbytes:
                        field.view(private).copy_(view)
            device_context.wait()
        except (Unreadable, cuda_driver.DriverError) as error:
            return {"ended_ns": 0, "kind": "type", "text": f"an output cannot be taken: {error}"}
        return {"ended_ns": time.monotonic_ns(), "kind": "", "text": ""}

    def _held(self, request: dict[str, Any]) -> list[tuple[int, int]]:
        made = self._reference.find(request["id"]) if "id" in request else None
        held: list[tuple[int, int]] = self._reference.held_bytes(made)
        return held

    def _regions(self, request: dict[str, Any]) -> list[torch.Tensor]:
        if "id" in request:
            return [self._region(request["id"])]
        return self._fresh[: request.get("fresh", 0)]

    @property
    def is_crowded(self) -> bool:
        """Whether the device has room for one call at a time: what is not in use is needed elsewhere."""
        return self._plan.count == 1

    def _region(self, name: str) -> torch.Tensor:
        made = self._reference.present(name)
        store = self._reference.store_of(made)
        assert isinstance(store, DeviceStore)
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
