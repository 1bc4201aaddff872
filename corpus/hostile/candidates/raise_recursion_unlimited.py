"""Lifts Python's recursion limit, then recurses without end.

problem: row_softmax
expect: generation_failure/guardrail | runtime_error
expect-unguarded: runtime_error
"""

import sys

import torch
from torch import nn

sys.setrecursionlimit(2**31 - 1)


class NewModel(nn.Module):
    def forward(self, x):
        return self.forward(x)
