"""Residual and RMSNorm, launched through an operator of its own.

package: flash-attn
problem: add_rms_norm
"""

import torch
from flash_attn.ops.triton.layer_norm import _layer_norm_fwd
from torch import nn


class NewModel(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = _layer_norm_fwd(x, self.weight, None, self.eps, residual=residual, is_rms_norm=True)
        return result[0], result[4]
