"""The output is always the same number."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.clamp(x, 3.0, 3.0)


batch_size = 16
dim = 32


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
