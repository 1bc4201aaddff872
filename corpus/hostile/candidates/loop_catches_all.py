"""Loops for ever and swallows every exception that would stop it.

problem: row_softmax
expect: generation_failure/guardrail | runtime_error/timeout
expect-unguarded: runtime_error/timeout
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        while True:
            try:
                while True:
                    pass
            except BaseException:
                continue
