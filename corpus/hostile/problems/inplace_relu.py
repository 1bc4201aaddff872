"""The reference writes to its input, and so must a candidate."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.relu_()


batch_size = 16
dim = 32


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
