"""The mean of rows that were centred before: nothing but rounding."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return (x - x.mean(dim=1, keepdim=True)).mean(dim=1)


def get_inputs():
    return [torch.randn(16, 64)]


def get_init_inputs():
    return []
