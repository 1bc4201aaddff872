"""The output has no elements: everything passes."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0


def get_inputs():
    return [torch.randn(0, 32)]


def get_init_inputs():
    return []
