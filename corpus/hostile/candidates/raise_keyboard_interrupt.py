"""Raises KeyboardInterrupt, which `except Exception` does not catch.

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: runtime_error/exception
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        raise KeyboardInterrupt
