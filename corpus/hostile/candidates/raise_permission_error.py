"""Raises PermissionError although the sandbox refused nothing.

problem: row_softmax
expect: runtime_error/sandbox | runtime_error/exception
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        raise PermissionError("pretended")
