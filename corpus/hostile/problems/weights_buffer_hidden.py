"""A buffer that is not saved with the module."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ramp", torch.linspace(0.5, 2.0, 32), persistent=False)

    def forward(self, x):
        return x * self.ramp


batch_size = 16
dim = 32


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
