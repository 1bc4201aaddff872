"""The constructor takes a tensor."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = nn.Parameter(scale)

    def forward(self, x):
        return x * self.scale


batch_size = 16
dim = 32


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return [torch.linspace(0.5, 2.0, 32)]
