"""Scale, bias, GELU and gate in one Triton kernel over tiles; scale and bias are read once for a tile's rows."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def chain_kernel(x_ptr, scale_ptr, bias_ptr, y_ptr, n_rows, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    offsets = rows[:, None].to(tl.int64) * n_cols + cols[None, :]
    scale = tl.load(scale_ptr + cols, mask=cols < n_cols, other=0.0)
    bias = tl.load(bias_ptr + cols, mask=cols < n_cols, other=0.0)
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0, eviction_policy="evict_first")
    u = x * scale[None, :] + bias[None, :]
    h = 0.5 * u * (1.0 + tl.erf(u * 0.7071067811865476))
    tl.store(y_ptr + offsets, h / (1.0 + tl.exp(-h)) + x, mask=mask)


class NewModel(nn.Module):
    def __init__(self, cols: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(cols))
        self.bias = nn.Parameter(torch.zeros(cols))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        cols = x.shape[-1]
        rows = x.numel() // cols
        block = min(1024, triton.next_power_of_2(cols))
        grid = (triton.cdiv(cols, block), triton.cdiv(rows, 4))
        chain_kernel[grid](x, self.scale, self.bias, y, rows, cols, ROWS=4, COLS=block, num_warps=8)
        return y
