"""The referee's hands on a device: it lays inputs, takes outputs and holds them against truths that are there too.

Here slots are memory of the host. Devices that can share their own replace what they do better.
"""

from __future__ import annotations

import itertools
import math
import mmap
import os
import time
from typing import Any

import torch

from ...shared import device_context, layout
from ...shared.slot_layout import Plan
from ...shared.torch_device.device import TorchDevice
from ..device_store import DeviceStore
from ..problem import Drawn, Problem
from ..sets import Reference
from .results import Copies, Unreadable
from .slot_pool import MakeResults, MakeSlot, SlotPool, host_slot

_DEVICE_STORE_SHARE = 0.2  # of the device's memory, for sets that are kept at hand
_POOL_SHARE = 0.05  # for the places of one pool; some four of them are there at once
_MOST_PLACES = 64
_GIB = 1 << 30
SMALLEST_FLUSH = 128 << 20


def _torch_device() -> TorchDevice:
    made = device_context.current()
    assert isinstance(made, TorchDevice)
    return made


def key_parts() -> list[str]:
    """By which what is kept of a problem on this device is told from what is kept on others."""
    return [f"{device_context.device().type}: {_torch_device().name()}"]


def after_answer() -> None:
    """Nothing of ours runs then."""


def device_store(tight: bool) -> DeviceStore:
    return DeviceStore(0 if tight else int(_DEVICE_STORE_SHARE * _torch_device().total_memory()))


def free_bytes() -> float:
    free = _torch_device().free_memory()
    return math.inf if free is None else free


def look(_problem: Problem, _shapes: list[dict[str, int]]) -> dict[str, int]:
    """What judging a problem needs of the device: all of it, since backends differ in what they tell of their memory."""
    return {"needed_bytes": 1, "memory_bytes": 1}


def too_large(reference: Reference | None, error: BaseException) -> str:
    return too_large_for("device", "", reference, error)


def too_large_for(what: str, left: str, reference: Reference | None, error: BaseException) -> str:
    """`left` says how much is free, and `what` has it."""
    sizes = ""
    if reference is not None and reference.variants:
        inputs, outputs = reference.input_bytes / _GIB, reference.output_bytes / _GIB
        sizes = (
            f": its inputs take {inputs:.1f} GiB and its outputs {outputs:.1f} GiB, and judging holds several of both"
        )
    return (
        f"the {what} has not enough memory to judge this problem{sizes}{left}. "
        f"Make the problem smaller, take a {what} with more memory, or end what else uses this one"
        f"{' (nvidia-smi)' if what == 'GPU' else ''} "
        f"({str(error).splitlines()[0][:200] if str(error) else type(error).__name__})"
    )


class Flush:
    """Empties a device's caches: more than they hold is written and read."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._buffer = torch.zeros(self.nbytes // 8, dtype=torch.int64, device=device_context.device())

    def __call__(self) -> None:
        self._buffer.add_(1)
        self._buffer.sum()


class Desk:
    unreadable: tuple[type[Exception], ...] = (Unreadable,)

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._pools: dict[int, SlotPool] = {}
        self._numbers = itertools.count()
        self._flush = Flush(self._flush_bytes())
        self._make_slot, self._make_results, self._staged = self._how_to_share()
        self._plan = Plan(reference.input_bytes, reference.output_bytes, self._places())
        self._private: dict[tuple[int, int], torch.Tensor] = {}  # copies of results, by side and place
        self._fresh: list[torch.Tensor] = []  # regions of the inputs that were drawn last

    # What a kind of device may know better.

    def _flush_bytes(self) -> int:
        return SMALLEST_FLUSH

    def _how_to_share(self) -> tuple[MakeSlot, MakeResults, str]:
        """Ways to make slots and to take results, and why slots are not the device's own memory where they are not."""
        return host_slot, Copies, "its memory is not shared between processes"

    def _memory_bytes(self) -> int:
        return _torch_device().total_memory()

    def _describe(self) -> dict[str, Any]:
        return {
            "name": _torch_device().name(),
            "note": f"{device_context.device().type}, torch {torch.__version__}",
            "memory_bytes": self._memory_bytes(),
            "flush_bytes": self._flush.nbytes,
            "places": self._plan.count,
        }

    def _places(self) -> int:
        """How many calls can be made in a row: short ones need several, so that the clock outside resolves them."""
        one = self._reference.input_bytes + 2 * self._reference.output_bytes  # outputs are copied
        return int(min(max(_POOL_SHARE * self._memory_bytes() // one, 1), _MOST_PLACES))

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
            pool = SlotPool(self._plan, self._make_slot, self._make_results, bool(self._staged))
            number = next(self._numbers)
            self._pools[number] = pool
            device_context.wait()
            return {"lane": number}, pool.files
        if word == "alive":
            torch.ones(1024, device=device_context.device()).sum().item()
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
            device_context.wait()
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
        device_context.wait()
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
        except self.unreadable as error:
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


def desk(reference: Reference) -> Desk:
    return Desk(reference)
