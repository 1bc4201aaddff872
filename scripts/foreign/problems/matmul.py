"""A product of two matrices."""

import torch
from torch import nn

size = 1024


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(size, size), torch.randn(size, size)]


def get_init_inputs() -> list[object]:
    return []
