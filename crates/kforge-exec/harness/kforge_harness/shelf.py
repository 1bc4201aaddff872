"""Where sets lie on a GPU: in its own memory, as long as there is room.

A set that had to go is made again from its seeds, which on a GPU is quicker than reading it from a disk.
"""

from __future__ import annotations

import torch

from . import home, layout

_ALWAYS_KEPT = 3  # sets that one step of the judgement looks at together


class DeviceShelf:
    """The same words as `Store`, for tensors that are not kept from one session to the next."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._regions: dict[str, dict[str, torch.Tensor]] = {}  # by set, the one used last at the end

    def has(self, name: str) -> bool:
        return name in self._regions.get(_set_of(name), {})

    def write_tensors(self, name: str, tensors: list[torch.Tensor]) -> list[layout.Field]:
        fields, size = layout.plan(tensors)
        region = torch.empty(size, dtype=torch.uint8, device=home.device())
        layout.write(fields, region, tensors)
        regions = self._used(name)
        regions[name] = region
        self._make_room()
        return fields

    def read_tensors(self, name: str, fields: list[layout.Field]) -> list[torch.Tensor]:
        region = self.region(name)
        return [field.view(region) for field in fields]

    def region(self, name: str) -> torch.Tensor:
        """All bytes of one entry, as they lie in a slot."""
        return self._used(name)[name]

    def _used(self, name: str) -> dict[str, torch.Tensor]:
        made = self._regions.pop(_set_of(name), {})
        self._regions[_set_of(name)] = made
        return made

    def _make_room(self) -> None:
        while len(self._regions) > _ALWAYS_KEPT and self._bytes() > self._budget:
            del self._regions[next(iter(self._regions))]

    def _bytes(self) -> int:
        return sum(region.numel() for regions in self._regions.values() for region in regions.values())


def _set_of(name: str) -> str:
    return name.partition(".")[0]
