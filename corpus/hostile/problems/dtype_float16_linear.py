"""A linear layer in half precision."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 48).half()

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.randn(16, 32).half()]


def get_init_inputs():
    return []
