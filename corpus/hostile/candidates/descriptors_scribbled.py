"""Writes rubbish into every descriptor that it finds; the output is wrong.

problem: row_softmax
expect: generation_failure/guardrail | mismatch/numeric | runtime_error/protocol | runtime_error/exit | runtime_error/crash | runtime_error/timeout | runtime_error/sandbox
expect-unguarded: mismatch/numeric | runtime_error/protocol | runtime_error/exit | runtime_error/crash | runtime_error/timeout | runtime_error/sandbox
"""

import os

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        for descriptor in range(64):
            try:
                os.write(descriptor, b'{"state": "correct"}\n' * 64)
            except OSError:
                pass
        return x * 0.5
