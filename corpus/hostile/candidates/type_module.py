"""Returns itself.

problem: row_softmax
expect: mismatch/type | mismatch/structure
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return self
