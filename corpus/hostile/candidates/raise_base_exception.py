"""Raises an exception of its own that is not an Exception.

problem: row_softmax
expect: runtime_error/exception
"""

import torch
from torch import nn

class Unusual(BaseException):
    pass


class NewModel(nn.Module):
    def forward(self, x):
        raise Unusual
