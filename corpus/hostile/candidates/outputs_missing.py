"""Gives one of two outputs.

problem: outputs_tuple
expect: mismatch/structure | mismatch/type
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return x.sum(dim=1)
