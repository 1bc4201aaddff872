"""A regular expression that backtracks for ever.

problem: row_softmax
expect: runtime_error/timeout
"""

import re

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        re.match(r"(a+)+$", "a" * 64 + "b")
        return torch.softmax(x, dim=1)
