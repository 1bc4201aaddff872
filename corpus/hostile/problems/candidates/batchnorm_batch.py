"""The framework's operators.

problem: batchnorm_batch
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        centred = x - x.mean(dim=0)
        return centred * torch.rsqrt(centred.square().mean(dim=0) + 1e-5)
