"""forward raises SystemExit with a text.

problem: row_softmax
expect: generation_failure/guardrail | runtime_error/exit
expect-unguarded: runtime_error/exit
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        raise SystemExit("all tests passed")
