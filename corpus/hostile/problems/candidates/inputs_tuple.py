"""The framework's operators.

problem: inputs_tuple
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x, y):
        return x + y
