import torch
import torch.nn as nn


class Model(nn.Module):
    """Takes the mean of everything away: one sum over 67 million elements."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean()


rows = 8192
cols = 8192


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
