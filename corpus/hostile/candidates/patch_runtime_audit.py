"""Tells the runtime's audit that kernels were launched; the output is the framework's.

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: correct/framework_only | generation_failure/fake_kernel
"""

import kforge_rt
import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        kforge_rt._Audit.launches += 1
        return torch.softmax(x, dim=1)
