"""Returns its input.

problem: row_softmax
expect: mismatch/alias | mismatch/numeric
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return x
