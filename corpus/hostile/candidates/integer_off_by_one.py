"""The indices are off by one.

problem: output_argmax
expect: mismatch/integer
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return (torch.argmax(x, dim=1) + 1) % x.shape[1]
