"""A print statement of Python 2.

problem: row_softmax
expect: generation_failure/syntax
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        print "hello"
        return torch.softmax(x, dim=1)
