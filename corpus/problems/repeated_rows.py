import torch
import torch.nn as nn


class Model(nn.Module):
    """A doubled row of 65536 values, as often as asked for, in memory of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (2.0 * x).repeat(times, 1)


times = 32
cols = 65536


def get_inputs():
    return [torch.rand(cols)]


def get_init_inputs():
    return []
