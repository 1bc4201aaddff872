"""get_inputs returns a tuple."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        return x + y


def get_inputs():
    return torch.randn(16, 32), torch.randn(16, 32)


def get_init_inputs():
    return []
