"""LayerNorm, launched through an operator of its own, all of it as it is published.

package: flash-attn
problem: layer_norm
stubs: -
"""

import torch
from flash_attn.ops.triton.layer_norm import _layer_norm_fwd
from torch import nn


class NewModel(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _layer_norm_fwd(x, self.weight, self.bias, self.eps)[0]
