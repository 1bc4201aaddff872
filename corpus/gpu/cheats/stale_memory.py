"""Returns memory that nobody wrote and hopes that an earlier answer lies there.

problem: row_softmax
expect: mismatch/numeric|mismatch/non_finite|mismatch/nondeterministic|generation_failure/fake_kernel
expect-unguarded: mismatch/numeric|mismatch/non_finite|mismatch/nondeterministic|generation_failure/fake_kernel
"""

import torch


class NewModel(torch.nn.Module):
    def forward(self, x):
        return torch.empty_like(x)
