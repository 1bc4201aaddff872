"""Rotary position embedding of projected queries: split the heads, move them in front of the positions, rotate."""

import torch
from torch import nn

batch_size = 4
seq_len = 512
num_heads = 16
head_dim = 64


class Model(nn.Module):
    def __init__(self, seq_len: int, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        frequencies = 10000.0 ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        angles = torch.arange(seq_len).float()[:, None] * frequencies
        self.register_buffer("cos", torch.cat([angles.cos(), angles.cos()], dim=-1))
        self.register_buffer("sin", torch.cat([angles.sin(), angles.sin()], dim=-1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        q = x.view(batch, seq, self.num_heads, -1).transpose(1, 2)
        first, second = q.chunk(2, dim=-1)
        rotated = torch.cat([-second, first], dim=-1)
        return (q * self.cos[:seq] + rotated * self.sin[:seq]).contiguous()


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, seq_len, num_heads * head_dim)]


def get_init_inputs() -> list[object]:
    return [seq_len, num_heads, head_dim]
