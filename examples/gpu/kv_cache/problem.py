"""Bias, rotary embedding and update of a key-value cache: a decoder layer between its product and its attention.

The caches are written in place, at the slots that the tokens were given; the queries are returned.
"""

import torch
from torch import nn

batch_size = 8
tokens = 1024
num_heads = 32
head_dim = 128
cache_len = 2048


class Model(nn.Module):
    def __init__(self, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.bias = nn.Parameter(torch.zeros(3 * num_heads * head_dim))

    def forward(
        self,
        qkv: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        slots: torch.Tensor,
    ) -> torch.Tensor:
        batch, length, _ = qkv.shape
        q, k, v = (qkv + self.bias).view(batch, length, 3, self.num_heads, -1).unbind(2)
        cos, sin = cos[None, :, None, :], sin[None, :, None, :]
        q1, q2 = q.chunk(2, dim=-1)
        k1, k2 = k.chunk(2, dim=-1)
        k_cache.index_copy_(1, slots, torch.cat((k1 * cos - k2 * sin, k2 * cos + k1 * sin), dim=-1))
        v_cache.index_copy_(1, slots, v)
        return torch.cat((q1 * cos - q2 * sin, q2 * cos + q1 * sin), dim=-1)


def get_inputs() -> list[torch.Tensor]:
    turns = torch.rand(tokens, head_dim // 2) * 6.2831853
    cache = (batch_size, cache_len, num_heads, head_dim)
    return [
        torch.randn(batch_size, tokens, 3 * num_heads * head_dim),
        torch.cos(turns),
        torch.sin(turns),
        torch.randn(cache),
        torch.randn(cache),
        torch.randperm(cache_len)[:tokens].sort().values,
    ]


def get_init_inputs() -> list[object]:
    return [num_heads, head_dim]
