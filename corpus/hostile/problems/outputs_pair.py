"""Two outputs of the same shape."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0, x * 2.0 + 1.0


batch_size = 16
dim = 32


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
