"""forward raises."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        raise RuntimeError("boom in forward")


batch_size = 16
dim = 32


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
