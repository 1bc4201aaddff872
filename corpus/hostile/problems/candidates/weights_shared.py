"""The framework's operators.

problem: weights_shared
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(32, 32))

    def forward(self, x):
        return torch.relu(x @ self.weight.t()) @ self.weight.t()
