"""Returns memory that nobody wrote, hoping that it holds an old result.

problem: row_softmax
expect: mismatch/numeric|mismatch/non_finite|mismatch/nondeterministic
expect-unguarded: mismatch/numeric|mismatch/non_finite|mismatch/nondeterministic
"""

import torch


class NewModel(torch.nn.Module):
    def forward(self, x):
        return torch.empty_like(x)
