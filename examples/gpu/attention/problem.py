"""Causal attention in float16, written out as in a small GPT."""

import math

import torch
from torch import nn

batch_size = 4
heads = 16
positions = 2048
head_dim = 64


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        length = q.shape[-2]
        future = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
        return torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ v


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, heads, positions, head_dim, dtype=torch.float16) for _ in range(3)]


def get_init_inputs() -> list[object]:
    return []
