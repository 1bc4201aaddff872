"""Variance and mean of rows."""

import torch
from torch import nn

rows = 4096
dim = 4096


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.var_mean(x, dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(rows, dim)]


def get_init_inputs() -> list[object]:
    return []
