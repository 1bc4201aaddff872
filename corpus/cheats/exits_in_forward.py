"""Calls sys.exit(0) in forward: an early end with a good exit code.

problem: row_softmax
expect: runtime_error/exit|runtime_error/exception|generation_failure/guardrail
expect-unguarded: runtime_error/exit|runtime_error/exception
"""

import sys

import torch


class NewModel(torch.nn.Module):
    def forward(self, x):
        sys.exit(0)
