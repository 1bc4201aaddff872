"""Where sets lie on a GPU: in its own memory, as long as there is room.

A set that had to go is made again from its seeds, which on a GPU is quicker than reading it from a disk.
"""

from __future__ import annotations

import torch

from ..shared import device_context, layout


class DeviceStore:
    """The same words as `Store`, for tensors that are not kept from one session to the next."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._regions: dict[str, dict[str, torch.Tensor]] = {}  # by set, the one used last at the end

    def has(self, name: str) -> bool:
        return name in self._regions.get(_set_of(name), {})

    def write_tensors(self, name: str, tensors: list[torch.Tensor]) -> list[layout.Field]:
        fields, size = layout.plan(tensors)
        region = layout.as_region(fields, size, tensors)
        if region is None:
            # Zeros, for the gaps: a set that is made again has the same bytes.
            region = torch.zeros(size, dtype=torch.uint8, device=device_context.device())
            layout.write(fields, region, tensors)
        regions = self._used(name)
        regions[name] = region
        self.make_room(0, keep=1)
        return fields

    def read_tensors(self, name: str, fields: list[layout.Field]) -> list[torch.Tensor]:
        region = self.region(name)
        return [field.view(region) for field in fields]

    def region(self, name: str) -> torch.Tensor:
        """All bytes of one entry, as they lie in a slot."""
        return self._used(name)[name]

    def checksum(self, name: str) -> int:
        return int(self.region(name).view(torch.int64).sum())

    def drop(self, name: str) -> None:
        """A whole set."""
        self._regions.pop(name, None)

    def make_room(self, nbytes: int, keep: int = 0) -> None:
        """For something of that size, which is going to be made: the sets that were used longest ago go first."""
        while len(self._regions) > keep and self._bytes() + nbytes > self._budget:
            del self._regions[next(iter(self._regions))]

    def keep_one(self) -> None:
        """From now on, since there is no room for more; what lies here goes at once."""
        self._budget = 0
        self._regions.clear()

    def _used(self, name: str) -> dict[str, torch.Tensor]:
        made = self._regions.pop(_set_of(name), {})
        self._regions[_set_of(name)] = made
        return made

    def _bytes(self) -> int:
        return sum(region.numel() for regions in self._regions.values() for region in regions.values())


def _set_of(name: str) -> str:
    return name.partition(".")[0]
