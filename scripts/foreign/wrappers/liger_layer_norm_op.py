"""LayerNorm as an operator that `torch.library.triton_op` registers.

package: liger-kernel
problem: layer_norm
"""

import torch
from liger_kernel.ops.layer_norm import _layer_norm_forward_kernel
from liger_kernel.ops.utils import calculate_settings
from torch import nn
from torch.library import triton_op, wrap_triton


@triton_op("foreign::layer_norm", mutates_args={})
def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    rows, dim = x.shape
    block, warps = calculate_settings(dim)
    out = torch.empty_like(x)
    mean = torch.empty(rows, dtype=torch.float32, device=x.device)
    scale = torch.empty_like(mean)
    pairs = [value for tensor in (out, x, weight, bias, mean, scale) for value in (tensor, tensor.stride(0))]
    wrap_triton(_layer_norm_forward_kernel)[(rows,)](*pairs, dim, eps, BLOCK_SIZE=block, num_warps=warps)
    return out


class NewModel(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return layer_norm(x, self.weight, self.bias, self.eps)
