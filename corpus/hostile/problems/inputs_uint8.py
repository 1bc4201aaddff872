"""The input is of bytes, the output of floats."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.float() / 255.0


def get_inputs():
    return [torch.randint(0, 256, (16, 32), dtype=torch.uint8)]


def get_init_inputs():
    return []
