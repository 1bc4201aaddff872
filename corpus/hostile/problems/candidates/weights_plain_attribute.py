"""The framework's operators, and an attribute of the same name.

problem: weights_plain_attribute
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.randn(32)

    def forward(self, x):
        return x * self.scale
