"""The constructor takes one dictionary, which is an argument and not a set of keywords."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.scale = options["scale"]

    def forward(self, x):
        return x * self.scale


batch_size = 16
dim = 32


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return [{"scale": 2.0}]
