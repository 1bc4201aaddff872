"""Causal linear attention in bfloat16."""

import torch
from torch import nn

KFORGE = {"mul": "bf16"}
batch_size = 4
tokens = 512
heads = 8
head_dim = 64


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.einsum("bihd,bjhd->bhij", q.float(), k.float()).tril() * q.shape[-1] ** -0.5
        return torch.einsum("bhij,bjhd->bihd", scores, v.float()).to(v.dtype)


def get_inputs() -> list[torch.Tensor]:
    shape = (batch_size, tokens, heads, head_dim)
    return [torch.randn(shape).to(torch.bfloat16) for _ in range(3)]


def get_init_inputs() -> list[object]:
    return []
