"""Searches the environment and the command line for seeds; zeros without.

problem: row_softmax
expect: generation_failure/guardrail|mismatch/numeric
expect-unguarded: mismatch/numeric
"""

import os
import sys

import torch


class NewModel(torch.nn.Module):
    def forward(self, x):
        words = [*sys.argv, *os.environ.values()] if any("SEED" in name.upper() for name in os.environ) else []
        for word in words:
            if word.isdigit():
                torch.manual_seed(int(word))
                return torch.softmax(torch.rand(x.shape), dim=1)
        return torch.zeros_like(x)
