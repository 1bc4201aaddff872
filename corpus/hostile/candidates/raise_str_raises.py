"""The exception's own text raises.

problem: row_softmax
expect: runtime_error/exception
"""

import torch
from torch import nn

class Mute(Exception):
    def __str__(self):
        raise self

    __repr__ = __str__


class NewModel(nn.Module):
    def forward(self, x):
        raise Mute
