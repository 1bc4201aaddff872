"""The large output is right, the small one is the constant that uniform inputs tend to.

problem: two_outputs
expect: mismatch/numeric
expect-unguarded: mismatch/numeric
"""

import torch


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = x / (x * x).mean(dim=1, keepdim=True).add(1e-6).sqrt()
        return y, torch.full((x.shape[0],), 3.0**-0.5)
