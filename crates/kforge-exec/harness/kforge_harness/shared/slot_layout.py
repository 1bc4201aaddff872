"""How input slots are divided: places of one size for calls that are made in a row, and on a GPU the gate behind them.

The gate is a word that launches wait for. A cell may open its own at any time: it gains nothing, since inputs are laid
just before kforge opens it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .wire import GATE_BYTES, SLOT_ALIGN

OPEN = 1
INPUT_SLOT = 1 << 32  # in the place of a segment's number: a result lies among the inputs


@dataclass(frozen=True)
class Plan:
    """Sizes for the process that makes a slot and for the one that uses it."""

    input_bytes: int
    output_bytes: int
    count: int

    @property
    def input_size(self) -> int:
        return self.count * _stride(self.input_bytes) + GATE_BYTES

    def inputs(self, slot: Any) -> list[Any]:
        """The places of a slot that is a tensor of bytes, or memory of this machine."""
        stride = _stride(self.input_bytes)
        return [slot[place * stride : place * stride + self.input_bytes] for place in range(self.count)]

    def gate(self, slot: torch.Tensor) -> torch.Tensor:
        start = self.input_size - GATE_BYTES
        return slot[start : start + 4].view(torch.int32)


def _stride(nbytes: int) -> int:
    return -(-nbytes // SLOT_ALIGN) * SLOT_ALIGN
