"""Residual add and LayerNorm in Triton: the summed row never leaves the registers between its passes."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_layernorm_kernel(x_ptr, residual_ptr, weight_ptr, bias_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    h = x + residual
    mean = tl.sum(h, axis=0) / n_cols
    centred = tl.where(mask, h - mean, 0.0)  # the lanes past the end are zeros, not members of the row
    variance = tl.sum(centred * centred, axis=0) / n_cols
    scale = 1.0 / tl.sqrt(variance + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0)
    tl.store(y_ptr + row * n_cols + cols, centred * scale * weight + bias, mask=mask)


class NewModel(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        x, residual = x.contiguous(), residual.contiguous()
        y = torch.empty_like(x)
        cols = x.shape[-1]
        rows = x.numel() // cols
        block = triton.next_power_of_2(cols)
        warps = 4 if block <= 2048 else 8
        add_layernorm_kernel[(rows,)](
            x, residual, self.norm.weight, self.norm.bias, y, cols, self.norm.eps, BLOCK=block, num_warps=warps
        )
        return y
