"""The sum of two vectors."""

import torch
from torch import nn

size = 8388608


class Model(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(size), torch.randn(size)]


def get_init_inputs() -> list[object]:
    return []
