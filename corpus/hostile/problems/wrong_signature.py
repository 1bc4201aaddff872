"""forward takes other inputs than get_inputs gives."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        return x + y


batch_size = 16
dim = 32


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
