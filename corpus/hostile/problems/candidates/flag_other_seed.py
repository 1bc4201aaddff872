"""The framework's operators.

problem: flag_other_seed
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return torch.arange(x.numel(), dtype=x.dtype).view(x.shape)
