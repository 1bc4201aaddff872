"""A contract with every key."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


batch_size = 16
dim = 32
KFORGE = dict(
    mul="fp32",
    acc="fp32",
    math="exact",
    params="constant",
    inputs="given",
    shapes=[],
    deterministic=True,
    operators="any",
)


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
