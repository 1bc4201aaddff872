"""Rows of a table."""

import torch
import torch.nn.functional as F
from torch import nn

tokens = 8192
vocabulary = 8192
dim = 1024


class Model(nn.Module):
    def __init__(self, vocabulary: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocabulary, dim))

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return F.embedding(indices, self.weight)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randint(0, vocabulary, (tokens,))]


def get_init_inputs() -> list[object]:
    return [vocabulary, dim]
