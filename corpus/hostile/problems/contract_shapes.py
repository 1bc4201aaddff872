"""A contract with another size to be right on."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


batch_size = 16
dim = 32
KFORGE = dict(shapes=[dict(batch_size=3, dim=33)])


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
