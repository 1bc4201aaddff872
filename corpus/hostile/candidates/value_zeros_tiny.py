"""Returns zeros where every right value is below any absolute tolerance.

problem: softmax_huge_dim
expect: mismatch/numeric
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
