"""RMSNorm, a row per program.

package: unsloth
problem: rms_norm
"""

import torch
from torch import nn
from unsloth.kernels.rms_layernorm import _rms_layernorm_forward, _settings


class NewModel(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, dim = x.shape
        out = torch.empty_like(x)
        scales = torch.empty(rows, dtype=torch.float32, device=x.device)
        block, warps = _settings(dim, x.device)
        _rms_layernorm_forward[(rows,)](
            out, x, self.weight, scales, x.stride(0), out.stride(0), 1, 1, dim, self.eps, False, block, num_warps=warps
        )
        return out
