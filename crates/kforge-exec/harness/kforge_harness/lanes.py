"""Slots in device memory, seen from the trusted side: inputs are laid there, outputs are taken from there.

Each slot is an allocation of its own, made for nothing else: what lies beside it belongs to nobody. It crosses into a
cell as a file descriptor.
"""

from __future__ import annotations

import torch

from . import cuda_driver, home

_POISON = 0xFF
_SMALLEST_FLUSH = 128 << 20


class Lane:
    """Input and output of one cell, and a private copy of the output that was taken last."""

    def __init__(self, driver: cuda_driver.Driver, input_bytes: int, output_bytes: int) -> None:
        self.files: list[int] = []
        self._input = self._slot(driver, input_bytes)
        self._output = self._slot(driver, output_bytes)
        self.taken = torch.zeros_like(self._output)

    def _slot(self, driver: cuda_driver.Driver, nbytes: int) -> torch.Tensor:
        file, size = driver.allocate(nbytes)
        self.files.append(file)
        slot = home.device_bytes(driver.map(file, size), nbytes)
        return slot.zero_()

    def lay(self, region: torch.Tensor) -> None:
        self._input[: region.numel()].copy_(region)
        self._output.fill_(_POISON)

    def take(self) -> bool:
        """Copies the output; false where it was still being written."""
        self.taken.copy_(self._output)
        torch.cuda.synchronize()
        return self.still_there()

    def still_there(self) -> bool:
        return _same(self._output, self.taken)

    def unchanged(self, region: torch.Tensor) -> bool:
        return _same(self._input[: region.numel()], region)

    def wipe(self) -> None:
        self._input.zero_()
        self._output.zero_()


class Flush:
    """Empties the level-2 cache: twice its size is written and read."""

    def __init__(self, l2_bytes: int) -> None:
        self.nbytes = max(2 * l2_bytes, _SMALLEST_FLUSH)
        self._buffer = torch.zeros(self.nbytes // 8, dtype=torch.int64, device=home.device())

    def __call__(self) -> None:
        self._buffer.add_(1)
        self._buffer.sum()


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    # Regions are multiples of 256 bytes: eight at a time, and bits instead of numbers, since NaN differs from itself.
    return torch.equal(a.view(torch.int64), b.view(torch.int64))
