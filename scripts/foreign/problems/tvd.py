"""Total variation distance of two distributions, averaged over rows."""

import torch
from torch import nn

rows = 1024
vocabulary = 8192


class Model(nn.Module):
    def forward(self, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        return 0.5 * (p - q).abs().sum(-1).mean()


def get_inputs() -> list[torch.Tensor]:
    return [torch.softmax(torch.randn(rows, vocabulary), -1), torch.softmax(torch.randn(rows, vocabulary), -1)]


def get_init_inputs() -> list[object]:
    return []
