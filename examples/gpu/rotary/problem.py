"""Rotary position embedding: the two halves of every head are turned by an angle that depends on the position."""

import torch
from torch import nn

batch_size = 1
positions = 8192
heads = 32
head_dim = 128


class Model(nn.Module):
    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        cos, sin = cos[None, :, None, :], sin[None, :, None, :]
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def get_inputs() -> list[torch.Tensor]:
    turns = torch.rand(positions, head_dim // 2) * 6.2831853
    return [torch.randn(batch_size, positions, heads, head_dim), torch.cos(turns), torch.sin(turns)]


def get_init_inputs() -> list[object]:
    return []
