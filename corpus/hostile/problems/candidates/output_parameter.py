"""The framework's operators.

problem: output_parameter
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(32))

    def forward(self, x):
        return x * self.scale, self.scale.clone()
