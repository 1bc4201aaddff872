"""The input asks for a gradient."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(16, 32, requires_grad=True)]


def get_init_inputs():
    return []
