"""Matrix product with bias and squared ReLU behind it.

package: flash-attn
problem: linear_squared_relu_bf16
"""

import torch
from flash_attn.ops.triton.linear import triton_linear_act
from torch import nn


class NewModel(nn.Module):
    def __init__(self, width: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter((torch.randn(dim, width) * width**-0.5).to(torch.bfloat16))
        self.bias = nn.Parameter(torch.zeros(dim, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return triton_linear_act(x, self.weight, self.bias, "squared_relu")
