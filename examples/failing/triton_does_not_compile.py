"""Ends `compilation_failure` on nvidia/triton: right under the interpreter, refused by the ahead-of-time compiler.

The running maximum and the sum start as integers and become floats in the loop. The interpreter has Python's loose
variables; compiled code needs one type for a variable that a loop carries.
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_kernel(x_ptr, y_ptr, n_cols, inverse, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * n_cols
    y_ptr += row * n_cols
    top = -1000000
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=-float("inf"))
        top = tl.maximum(top, tl.max(x, axis=0))
    total = 0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=-float("inf"))
        total += tl.sum(tl.exp((x - top) * inverse), axis=0)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=-float("inf"))
        tl.store(y_ptr + cols, tl.exp((x - top) * inverse) / total, mask=cols < n_cols)


class NewModel(nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        rows, cols = x.shape
        softmax_kernel[(rows,)](x, y, cols, 1.0 / self.temperature, BLOCK=1024)
        return y
