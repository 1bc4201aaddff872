"""Gated RMSNorm in Triton: gate, norm and gain of a row in one program, with one trip to memory."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gated_rmsnorm_kernel(x_ptr, gate_ptr, weight_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    gate = tl.load(gate_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    h = x * (gate * tl.sigmoid(gate))
    mean_square = tl.sum(h * h, axis=0) / n_cols
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    tl.store(y_ptr + row * n_cols + cols, h * tl.rsqrt(mean_square + eps) * weight, mask=mask)


class NewModel(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        x, gate = x.contiguous(), gate.contiguous()
        y = torch.empty_like(x)
        cols = x.shape[-1]
        rows = x.numel() // cols
        block = triton.next_power_of_2(cols)
        warps = 4 if block <= 2048 else 8
        gated_rmsnorm_kernel[(rows,)](x, gate, self.weight, y, cols, self.eps, BLOCK=block, num_warps=warps)
        return y
