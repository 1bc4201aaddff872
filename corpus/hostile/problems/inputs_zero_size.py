"""One input is empty."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.cat([x, y], dim=0) * 2.0


def get_inputs():
    return [torch.randn(16, 32), torch.randn(0, 32)]


def get_init_inputs():
    return []
