"""RMSNorm in parts of rows.

package: xformers
problem: rms_norm
"""

import torch
from torch import nn
from xformers.ops._triton.rmsnorm_kernels import _rms_norm_forward


class NewModel(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _rms_norm_forward(x, self.weight, self.eps)
