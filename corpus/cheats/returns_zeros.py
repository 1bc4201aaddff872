"""Returns zeros.

problem: row_softmax
expect: mismatch/numeric
expect-unguarded: mismatch/numeric
"""

import torch


class NewModel(torch.nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
