"""A deeply nested group of exceptions.

problem: row_softmax
expect: runtime_error/exception
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        error = ValueError("leaf")
        for _ in range(500):
            error = ExceptionGroup("level", [error])
        raise error
