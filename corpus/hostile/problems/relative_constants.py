"""Sizes that follow from other sizes, and a contract that changes the first."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0


rows = 8
columns = rows * 6 + 1
KFORGE = dict(shapes=[dict(rows=3)])


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
