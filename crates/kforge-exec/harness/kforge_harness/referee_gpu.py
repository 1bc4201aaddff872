"""The referee's hands on a GPU: it lays inputs, takes outputs and holds them against truths that lie there too."""

from __future__ import annotations

import mmap
import os
from typing import Any

import torch

from . import cuda_driver, floor
from .lanes import Flush, Lane
from .sets import Reference
from .shelf import DeviceShelf

_SHELF_SHARE = 0.3  # of the device's memory, for sets that are kept at hand

WORDS = frozenset({"lane", "lay", "export", "take", "unchanged", "still_there", "wipe", "alive", "device"})


def shelf() -> DeviceShelf:
    return DeviceShelf(int(_SHELF_SHARE * torch.cuda.get_device_properties(0).total_memory))


class Desk:
    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._driver = cuda_driver.load()
        self._facts = self._driver.facts()
        self._flush = Flush(self._facts["l2_bytes"])
        self._lanes: list[Lane] = []

    def perform(self, request: dict[str, Any], attached: list[int]) -> tuple[dict[str, Any], list[int]]:
        """An answer, and descriptors that go with it and are then no longer needed here."""
        word = request["do"]
        if word == "lane":
            lane = Lane(self._driver, self._reference.input_bytes, self._reference.output_bytes)
            self._lanes.append(lane)
            torch.cuda.synchronize()
            return {"lane": len(self._lanes) - 1}, lane.files
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
            return self._describe(), []
        lane = self._lanes[request["lane"]]
        if word == "lay":
            lane.lay(self._region(request["id"]))
            if request["cold"]:
                self._flush()
            torch.cuda.synchronize()
            return {"done": True}, []
        if word == "wipe":
            lane.wipe()
            torch.cuda.synchronize()
            return {"done": True}, []
        if word == "take":
            return {"done": lane.take()}, []
        if word == "still_there":
            return {"done": lane.still_there()}, []
        return {"done": lane.unchanged(self._region(request["id"]))}, []

    def taken(self, lane: int) -> torch.Tensor:
        return self._lanes[lane].taken

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
            "compulsory_bytes": compulsory,
            "compulsory_note": note,
        }
