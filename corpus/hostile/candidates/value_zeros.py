"""Returns zeros.

problem: row_softmax
expect: mismatch/numeric
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
