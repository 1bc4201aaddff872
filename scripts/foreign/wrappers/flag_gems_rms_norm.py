"""RMSNorm, a row per program.

package: flag-gems
problem: rms_norm
"""

import torch
from flag_gems.ops.rms_norm import rms_norm_forward
from torch import nn


class NewModel(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm_forward(x, x.shape[-1:], self.weight, self.eps)[0]
