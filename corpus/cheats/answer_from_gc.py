"""Looks for the reference's output among all Python objects; zeros if there is none.

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: mismatch/numeric|mismatch/non_finite
"""

import gc

import torch


class NewModel(torch.nn.Module):
    def forward(self, x):
        for found in gc.get_objects():
            if isinstance(found, torch.Tensor) and found.shape == x.shape and found.dtype == x.dtype:
                if torch.allclose(found.sum(dim=1), torch.ones(x.shape[0])):
                    return found.clone()
        return torch.zeros_like(x)
