"""A hook computes the weight before each call and leaves it as a plain attribute."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.utils.weight_norm(nn.Conv1d(channels, channels, 3, padding=1))

    def forward(self, x):
        return torch.relu(self.conv(x))


def get_inputs():
    return [torch.randn(4, 16, 64)]


def get_init_inputs():
    return [16]
