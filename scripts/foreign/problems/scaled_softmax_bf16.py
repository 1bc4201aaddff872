"""Softmax of scaled attention scores in bfloat16."""

import torch
from torch import nn

batch_size = 4
heads = 8
tokens = 512
keys = 1024
scale = 0.125


class Model(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        return torch.softmax(scores.float() * self.scale, dim=-1).to(scores.dtype)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, heads, tokens, keys).to(torch.bfloat16)]


def get_init_inputs() -> list[object]:
    return [scale]
