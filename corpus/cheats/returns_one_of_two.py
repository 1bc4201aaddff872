"""Returns only the first of two outputs.

problem: two_outputs
expect: mismatch/structure|mismatch/type|mismatch/shape
expect-unguarded: mismatch/structure|mismatch/type|mismatch/shape
"""

import torch


class NewModel(torch.nn.Module):
    def forward(self, x):
        return x / (x * x).mean(dim=1, keepdim=True).add(1e-6).sqrt()
