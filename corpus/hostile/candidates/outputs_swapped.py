"""Gives two outputs in the wrong order.

problem: outputs_tuple
expect: mismatch/shape | mismatch/numeric
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return torch.relu(x), x.sum(dim=1)
