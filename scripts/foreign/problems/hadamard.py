"""Rows through a Hadamard matrix, scaled to keep their length."""

import torch
from torch import nn

rows = 4096
dim = 1024


class Model(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        matrix = torch.ones(1, 1)
        while len(matrix) < dim:
            matrix = torch.cat((torch.cat((matrix, matrix), 1), torch.cat((matrix, -matrix), 1)))
        self.register_buffer("matrix", matrix * dim**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.matrix


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(rows, dim)]


def get_init_inputs() -> list[object]:
    return [dim]
