import torch
import torch.nn as nn


class Model(nn.Module):
    """ReLU of half a megabyte: about three microseconds."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


rows = 256
cols = 512


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
