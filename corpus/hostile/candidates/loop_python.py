"""Loops for ever in Python.

problem: row_softmax
expect: runtime_error/timeout
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        while True:
            pass
