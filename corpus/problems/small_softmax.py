import torch
import torch.nn as nn


class Model(nn.Module):
    """Softmax of a small matrix: less work than waking a process."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=1)


rows = 512
cols = 1024


def get_inputs():
    return [torch.rand(rows, cols)]


def get_init_inputs():
    return []
