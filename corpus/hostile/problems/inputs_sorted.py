"""The first input is sorted; the answer is meaningless otherwise."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, edges, x):
        return torch.searchsorted(edges, x)


def get_inputs():
    return [torch.sort(torch.randn(64)).values, torch.randn(16, 32)]


def get_init_inputs():
    return []
