"""The framework's operators.

problem: batchnorm_updates
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(32))
        self.register_buffer("var", torch.ones(32))

    def forward(self, x):
        mean = x.mean(dim=0)
        centred = x - mean
        var = centred.square().mean(dim=0)
        n = x.shape[0]
        self.mean.mul_(0.9).add_(0.1 * mean)
        self.var.mul_(0.9).add_(0.1 * var * n / (n - 1))
        return centred * torch.rsqrt(var + 1e-5)
