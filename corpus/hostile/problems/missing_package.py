"""Imports a package that is not installed."""

import a_package_that_nobody_has
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0


batch_size = 16
dim = 32


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
