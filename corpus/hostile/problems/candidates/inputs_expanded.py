"""The framework's operators.

problem: inputs_expanded
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return x * 2.0
