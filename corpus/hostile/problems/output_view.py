"""The reference returns a view of its input; a candidate may do likewise."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.view(-1, 8)


batch_size = 16
dim = 32


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
