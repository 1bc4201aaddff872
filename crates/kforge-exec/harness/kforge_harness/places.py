"""How slots on a GPU are divided: places of one size for calls that are made in a row, and the gate behind the inputs.

The gate is a word that launches wait for. A cell may open its own at any time: it gains nothing, since inputs are laid
just before kforge opens it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

OPEN = 1
_GATE_BYTES = 256
_ALIGN = 512  # what torch's own allocator gives


@dataclass(frozen=True)
class Plan:
    """Sizes of both slots, for the process that makes them and for the one that uses them."""

    input_bytes: int
    output_bytes: int
    count: int

    @property
    def input_size(self) -> int:
        return self.count * _stride(self.input_bytes) + _GATE_BYTES

    @property
    def output_size(self) -> int:
        return self.count * _stride(self.output_bytes)

    def inputs(self, slot: torch.Tensor) -> list[torch.Tensor]:
        return self._parts(slot, self.input_bytes)

    def outputs(self, slot: torch.Tensor) -> list[torch.Tensor]:
        return self._parts(slot, self.output_bytes)

    def gate(self, slot: torch.Tensor) -> torch.Tensor:
        start = self.input_size - _GATE_BYTES
        return slot[start : start + 4].view(torch.int32)

    def _parts(self, slot: torch.Tensor, nbytes: int) -> list[torch.Tensor]:
        stride = _stride(nbytes)
        return [slot[place * stride : place * stride + nbytes] for place in range(self.count)]


def _stride(nbytes: int) -> int:
    return -(-nbytes // _ALIGN) * _ALIGN
