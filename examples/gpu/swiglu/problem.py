"""SwiGLU: one half of a projection gates the other, in bfloat16."""

import torch
from torch import nn
from torch.nn import functional as F

tokens = 4096
hidden = 8192


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = x.chunk(2, dim=-1)
        return F.silu(gate) * value


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(tokens, 2 * hidden, dtype=torch.bfloat16)]


def get_init_inputs() -> list[object]:
    return []
