"""The input is not contiguous."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0


def get_inputs():
    return [torch.randn(32, 16).t()]


def get_init_inputs():
    return []
