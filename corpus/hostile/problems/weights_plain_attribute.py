"""A weight that is an ordinary attribute, neither parameter nor buffer."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.randn(32)

    def forward(self, x):
        return x * self.scale


batch_size = 16
dim = 32


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
