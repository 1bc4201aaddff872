"""Chosen rows of a matrix."""

import torch
from torch import nn

rows = 8192
dim = 2048
chosen = 4096


class Model(nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x[index]


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(rows, dim), torch.randperm(rows)[:chosen]]


def get_init_inputs() -> list[object]:
    return []
