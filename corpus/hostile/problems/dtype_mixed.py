"""The weights are float32, the input is bfloat16."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(32))

    def forward(self, x):
        return x.float() * self.scale


def get_inputs():
    return [torch.randn(16, 32).bfloat16()]


def get_init_inputs():
    return []
