import torch
import torch.nn as nn


class Model(nn.Module):
    """A doubled row of half a million values, as often as asked for, in memory of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (2.0 * x).repeat(times, 1)


times = 64
cols = 524288


def get_inputs():
    return [torch.rand(cols)]


def get_init_inputs():
    return []
