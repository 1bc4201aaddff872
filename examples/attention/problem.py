"""Causal multi-head attention with a learned bias per head and distance, written out step by step."""

import math

import torch
from torch import nn

batch_size = 2
num_heads = 8
seq_len = 256
head_dim = 64


class Model(nn.Module):
    def __init__(self, num_heads: int, seq_len: int) -> None:
        super().__init__()
        self.distance_bias = nn.Parameter(0.1 * torch.randn(num_heads, seq_len))
        position = torch.arange(seq_len)
        self.register_buffer("distance", (position[:, None] - position[None, :]).clamp(min=0))
        self.register_buffer("future", position[:, None] < position[None, :])

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + self.distance_bias[:, self.distance]
        return torch.softmax(scores.masked_fill(self.future, float("-inf")), dim=-1) @ v


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, num_heads, seq_len, head_dim) for _ in range(3)]


def get_init_inputs() -> list[object]:
    return [num_heads, seq_len]
