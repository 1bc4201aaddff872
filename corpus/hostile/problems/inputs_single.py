"""get_inputs returns one tensor that is not in a list."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1.0


def get_inputs():
    return torch.randn(16, 32)


def get_init_inputs():
    return []
