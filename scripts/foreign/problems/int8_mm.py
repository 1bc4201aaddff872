"""A product of two matrices of small integers, scaled by rows and columns."""

import torch
from torch import nn

size = 1024


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        return a.float() @ b.float() * rows * columns


def get_inputs() -> list[torch.Tensor]:
    factors = [torch.randint(-128, 128, (size, size), dtype=torch.int8) for _ in range(2)]
    return [*factors, torch.rand(size, 1) * 0.1, torch.rand(1, size) * 0.1]


def get_init_inputs() -> list[object]:
    return []
