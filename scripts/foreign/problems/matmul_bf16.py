"""A product of two matrices in bfloat16."""

import torch
from torch import nn

size = 2048


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(size, size).to(torch.bfloat16), torch.randn(size, size).to(torch.bfloat16)]


def get_init_inputs() -> list[object]:
    return []
