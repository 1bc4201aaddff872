"""The inputs are made on a GPU, on a machine without one."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0


def get_inputs():
    return [torch.randn(16, 32, device="cuda")]


def get_init_inputs():
    return []
