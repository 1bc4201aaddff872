"""The first half of each row through SiLU times the second, in bfloat16."""

import torch
import torch.nn.functional as F
from torch import nn

rows = 4096
dim = 4096


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = x.float().chunk(2, dim=-1)
        return (F.silu(gate) * value).to(x.dtype)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(rows, 2 * dim).to(torch.bfloat16)]


def get_init_inputs() -> list[object]:
    return []
