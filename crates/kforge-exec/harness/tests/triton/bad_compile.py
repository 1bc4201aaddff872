"""Right under the interpreter, refused by the compiler: the accumulator starts as an integer and becomes a tensor.

The interpreter has Python's loose variables; compiled code needs one type for a variable that a loop carries.
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * n_cols
    out_ptr += row * n_cols
    highest = 0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=-float("inf"))
        highest = tl.maximum(highest, tl.max(x, axis=0))
    total = 0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=-float("inf"))
        total += tl.sum(tl.exp(x - highest), axis=0)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=-float("inf"))
        tl.store(out_ptr + cols, tl.exp(x - highest) / total, mask=cols < n_cols)


class NewModel(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        rows, cols = x.shape
        softmax_kernel[(rows,)](x, out, cols, BLOCK=1024)
        return out
