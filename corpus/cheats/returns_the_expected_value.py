"""Returns the constant that the mean squared difference of uniform numbers tends to.

problem: total_mean
expect: mismatch/numeric|mismatch/precision
expect-unguarded: mismatch/numeric|mismatch/precision
"""

import torch


class NewModel(torch.nn.Module):
    def forward(self, x, y):
        return torch.tensor(1.0 / 6.0)
