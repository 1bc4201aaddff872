import torch
import torch.nn as nn


class Model(nn.Module):
    """All windows of a doubled signal, each a row of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (2.0 * x).unfold(0, width, 1).contiguous()


count = 2048
width = 512


def get_inputs():
    return [torch.rand(count + width - 1)]


def get_init_inputs():
    return []
