"""Imports a package that lies beside it."""

import torch
from helper_package import scaled_relu
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return scaled_relu(x)


batch_size = 16
dim = 32


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
