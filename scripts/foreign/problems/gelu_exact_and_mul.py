"""The first half of each row through GELU times the second."""

import torch
import torch.nn.functional as F
from torch import nn

rows = 2048
dim = 4096


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = x.chunk(2, dim=-1)
        return F.gelu(gate) * value


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(rows, 2 * dim)]


def get_init_inputs() -> list[object]:
    return []
