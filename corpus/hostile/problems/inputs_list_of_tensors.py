"""One input is a list of tensors."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, parts):
        return torch.cat(parts, dim=1)


def get_inputs():
    return [[torch.randn(8, 3), torch.randn(8, 5)]]


def get_init_inputs():
    return []
