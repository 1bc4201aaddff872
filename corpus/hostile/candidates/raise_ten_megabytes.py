"""Raises with a message of ten megabytes.

problem: row_softmax
expect: runtime_error/exception
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        raise RuntimeError("x" * 10_000_000)
