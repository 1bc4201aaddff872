"""Raises MemoryError although there is memory.

problem: row_softmax
expect: runtime_error/out_of_memory | runtime_error/exception
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        raise MemoryError("pretended")
