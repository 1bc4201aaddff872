"""What is kept with a set beside its truth: by what its outputs were decided, and what is in doubt."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..shared import layout
from .device_store import DeviceStore
from .doubt import Doubt
from .indices import IndexSource
from .store import Store


def keep_source(store: Store | DeviceStore, name: str, index: int, source: IndexSource | Doubt) -> dict[str, Any]:
    file = f"{name}.scores{index}"
    if isinstance(source, Doubt):
        tensors, kept = [source.places, source.values], {"doubt": source.kept()}
    else:
        scores = source.scores.double() if source.scores.is_floating_point() else source.scores
        tensors, kept = [scores.contiguous()], {"index": source.kept()}
    fields = store.write_tensors(file, tensors)
    return {"file": file, "fields": [asdict(field) for field in fields], **kept}


def kept_source(store: Store | DeviceStore, kept: dict[str, Any]) -> IndexSource | Doubt:
    tensors = store.read_tensors(kept["file"], [layout.Field(**field) for field in kept["fields"]])
    if "index" in kept:
        return IndexSource(tensors[0], **kept["index"])
    places, values = tensors
    return Doubt(places, values, **kept["doubt"])
