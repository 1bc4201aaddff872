"""The framework's operators.

problem: weights_in_reset
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(32, 32))

    def forward(self, x):
        return x @ self.weight.t()
