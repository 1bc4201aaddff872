import torch
import torch.nn as nn


class Model(nn.Module):
    """Eight sines: the framework passes over memory eight times, where once would do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(8):
            x = torch.sin(x)
        return x


rows = 4096
cols = 4096


def get_inputs():
    return [torch.rand(rows, cols)]


def get_init_inputs():
    return []
