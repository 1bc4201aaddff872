"""Steps as floating numbers: each is a place in a table."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.register_buffer("noise", torch.linspace(0.0, 1.0, steps).sqrt())

    def forward(self, x, t):
        return x * self.noise[t.long()][:, None]


def get_inputs():
    return [torch.randn(64, 256), torch.randint(0, 1000, (64,)).float()]


def get_init_inputs():
    return [1000]
