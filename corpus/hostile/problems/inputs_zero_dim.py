"""One input has no dimensions."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, scale):
        return x * scale


def get_inputs():
    return [torch.randn(16, 32), torch.randn(())]


def get_init_inputs():
    return []
