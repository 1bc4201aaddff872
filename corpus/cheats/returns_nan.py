"""Returns NaN everywhere, where a comparison with NaN might never exceed a tolerance.

problem: row_softmax
expect: mismatch/non_finite|mismatch/numeric
expect-unguarded: mismatch/non_finite|mismatch/numeric
"""

import torch


class NewModel(torch.nn.Module):
    def forward(self, x):
        return torch.full_like(x, float("nan"))
