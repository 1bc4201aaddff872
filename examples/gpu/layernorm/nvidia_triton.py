"""Residual add and LayerNorm in Triton: a row is summed and normalised without storing the sum."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_norm_kernel(x_ptr, residual_ptr, gain_ptr, bias_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0, eviction_policy="evict_first")
    r = tl.load(residual_ptr + row * n_cols + cols, mask=mask, other=0.0, eviction_policy="evict_first")
    gain = tl.load(gain_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_last")
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_last")
    v = x + r
    centred = tl.where(mask, v - tl.sum(v, axis=0) / n_cols, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / n_cols + eps)
    tl.store(y_ptr + row * n_cols + cols, centred * scale * gain + bias, mask=mask)


class NewModel(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        x, residual = x.contiguous(), residual.contiguous()
        y = torch.empty_like(x)
        cols = x.shape[-1]
        block = triton.next_power_of_2(cols)
        warps = 4 if block <= 2048 else 8 if block <= 8192 else 16
        add_norm_kernel[(x.numel() // cols,)](
            x, residual, self.norm.weight, self.norm.bias, y, cols, self.norm.eps, BLOCK=block, num_warps=warps
        )
        return y
