"""Two outputs share their memory, and the second overwrites the first.

problem: outputs_pair
expect: mismatch/numeric | mismatch/alias
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        first = x * 2.0
        second = first
        second.add_(1.0)
        return first, second
