"""The output differs from one number by less than any tolerance."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x * 1e-9) + 1000.0


batch_size = 16
dim = 32


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
