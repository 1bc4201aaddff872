import torch
import torch.nn as nn


class Model(nn.Module):
    """ReLU of 24 MiB, which a GPU's level-2 cache could hold."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


rows = 6144
cols = 1024


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
