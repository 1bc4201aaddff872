"""Bias, ReLU and row normalisation in Triton: one program per row, which is read once and stays in registers."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def relu_mix_kernel(x_ptr, bias_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    shifted = x + bias
    h = tl.where(shifted < 0.0, 0.0, shifted)  # this way round a NaN stays a NaN, as in the framework
    tl.store(y_ptr + row * n_cols + cols, h / (tl.sum(h, axis=0) + eps), mask=mask)


class NewModel(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(dim))  # same name and shape as the reference's: its value is copied in
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        cols = x.shape[-1]
        rows = x.numel() // cols
        block = triton.next_power_of_2(cols)
        warps = 4 if block <= 2048 else 8
        relu_mix_kernel[(rows,)](x, self.bias, y, cols, self.eps, BLOCK=block, num_warps=warps)
        return y
