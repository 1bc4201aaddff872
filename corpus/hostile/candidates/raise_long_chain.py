"""Five thousand exceptions, each the cause of the next.

problem: row_softmax
expect: runtime_error/exception
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        error = ValueError("first")
        for i in range(5000):
            following = ValueError(str(i))
            following.__cause__ = error
            error = following
        raise error
