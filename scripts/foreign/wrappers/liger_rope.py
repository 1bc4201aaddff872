"""Rotary embedding of both in one kernel.

package: liger-kernel
problem: rope
"""

import torch
from liger_kernel.ops.rope import rope_forward
from torch import nn


class NewModel(nn.Module):
    def forward(
        self, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        return rope_forward(q, k, cos.repeat(1, 2), sin.repeat(1, 2))[:2]
