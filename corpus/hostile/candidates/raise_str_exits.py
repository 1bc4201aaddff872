"""The exception's own text ends the process.

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: runtime_error/exception | runtime_error/exit
"""

import os

import torch
from torch import nn

class Last(Exception):
    def __str__(self):
        os._exit(0)


class NewModel(nn.Module):
    def forward(self, x):
        raise Last
