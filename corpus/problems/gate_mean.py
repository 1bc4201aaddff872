import torch
import torch.nn as nn


class Model(nn.Module):
    """The mean of all gates: a long sum of positive numbers that differ little."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (1.0 + torch.sigmoid(x)).mean()


rows = 3072
cols = 2048


def get_inputs():
    return [torch.rand(rows, cols)]


def get_init_inputs():
    return []
