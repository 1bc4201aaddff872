"""Binary cross entropy, which raises outside [0, 1]."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, p, target):
        return nn.functional.binary_cross_entropy(p, target, reduction="none")


def get_inputs():
    return [torch.rand(16, 32) * 0.98 + 0.01, torch.rand(16, 32)]


def get_init_inputs():
    return []
