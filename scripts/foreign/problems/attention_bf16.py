"""Causal attention of packed sequences of one length in bfloat16."""

import torch
import torch.nn.functional as F
from torch import nn

batch_size = 4
tokens = 512
heads = 8
head_dim = 64


class Model(nn.Module):
    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.unflatten(0, (self.batch_size, -1)).transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(0, 1)


def get_inputs() -> list[torch.Tensor]:
    shape = (batch_size * tokens, heads, head_dim)
    return [torch.randn(shape).to(torch.bfloat16) for _ in range(3)]


def get_init_inputs() -> list[object]:
    return [batch_size]
