"""Takes eight gigabytes in Python.

problem: row_softmax
expect: runtime_error/out_of_memory
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        kept = []
        for _ in range(128):
            kept.append(b"\x01" * (1 << 26))
        return torch.softmax(x, dim=1)
