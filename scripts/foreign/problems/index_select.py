"""Chosen columns of a matrix."""

import torch
from torch import nn

rows = 4096
dim = 4096
chosen = 1024


class Model(nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.index_select(x, 1, index)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(rows, dim), torch.randint(0, dim, (chosen,))]


def get_init_inputs() -> list[object]:
    return []
