"""A parenthesis is never closed.

problem: row_softmax
expect: generation_failure/syntax
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=(1
