"""GELU and product.

package: sglang
problem: gelu_exact_and_mul
"""

import torch
from sglang.kernels.ops.activation.gelu_and_mul_triton import gelu_and_mul_triton
from torch import nn


class NewModel(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return gelu_and_mul_triton(x)[0]
