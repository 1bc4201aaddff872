"""The framework's operators.

problem: flag_nearly_constant
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x * 1e-9) + 1000.0
