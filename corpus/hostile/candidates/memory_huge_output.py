"""The output has 10^13 elements, in a storage of one.

problem: row_softmax
expect: mismatch/shape
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return x[:1, :1].expand(10**6, 10**7)
