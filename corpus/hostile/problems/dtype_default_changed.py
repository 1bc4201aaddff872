"""The file changes torch's default dtype at import."""

import torch
from torch import nn

torch.set_default_dtype(torch.float64)


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


batch_size = 16
dim = 32


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
