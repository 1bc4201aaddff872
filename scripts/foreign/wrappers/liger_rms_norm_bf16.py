"""RMSNorm in bfloat16 as Gemma casts it.

package: liger-kernel
problem: rms_norm_bf16
"""

import torch
from liger_kernel.ops.rms_norm import rms_norm_forward
from torch import nn


class NewModel(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim, dtype=torch.bfloat16))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm_forward(x, self.weight, self.eps, 0.0, "gemma", row_mode=None)[0]
