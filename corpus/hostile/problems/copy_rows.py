"""A plain copy: returning the input gives the right values, but not a copy."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.clone()


batch_size = 16
dim = 32


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
