"""Rotary embedding of queries and keys, halves rotated; tables of cosines and sines are given."""

import torch
from torch import nn

batch_size = 4
heads = 16
kv_heads = 4
tokens = 256
head_dim = 128


class Model(nn.Module):
    def forward(
        self, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        return self.rotated(q, cos, sin), self.rotated(k, cos, sin)

    def rotated(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def get_inputs() -> list[torch.Tensor]:
    frequencies = 10000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)
    angles = torch.outer(torch.arange(tokens) + torch.randint(0, 4096, ()), frequencies)
    q = torch.randn(batch_size, heads, tokens, head_dim)
    k = torch.randn(batch_size, kv_heads, tokens, head_dim)
    return [q, k, angles.cos(), angles.sin()]


def get_init_inputs() -> list[object]:
    return []
