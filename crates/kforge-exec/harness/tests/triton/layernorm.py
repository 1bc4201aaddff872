"""Layer normalisation over the last dimension in Triton, in two passes over a row that may be longer than a block."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def layernorm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * n_cols
    out_ptr += row * n_cols

    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n_cols

    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        diff = tl.where(cols < n_cols, x - mean, 0.0)
        squares += diff * diff
    rstd = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / n_cols + eps)

    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + cols, mask=mask, other=0.0)
        b = tl.load(b_ptr + cols, mask=mask, other=0.0)
        tl.store(out_ptr + cols, (x - mean) * rstd * w + b, mask=mask)


class NewModel(nn.Module):
    def __init__(self, normalized_shape) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        weight = self.ln.weight
        cols = weight.numel()
        rows = x.numel() // cols
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        block = min(4096, triton.next_power_of_2(cols))
        layernorm_kernel[(rows,)](x, weight, self.ln.bias, out, cols, self.ln.eps, BLOCK=block, num_warps=8)
        return out
