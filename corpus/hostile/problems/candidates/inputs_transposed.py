"""The framework's operators; fails where the input's strides are lost.

problem: inputs_transposed
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        if x.is_contiguous():
            raise ValueError("the strides were lost")
        return torch.relu(x) * 2.0
