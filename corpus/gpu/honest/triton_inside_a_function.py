"""The kernel is made by a function, which gives it a helper and the size of its blocks.

problem: scale_bias
target: nvidia/triton
expect: correct
"""

import torch
import triton
import triton.language as tl


def make(block):
    BLOCK = tl.constexpr(block)

    @triton.jit
    def scaled(x, gain, bias):
        return x * gain + bias

    @triton.jit
    def kernel(x_ptr, gain_ptr, bias_ptr, y_ptr, n_cols):
        row = tl.program_id(0).to(tl.int64)
        cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
        gain = tl.load(gain_ptr + cols, mask=mask, other=0.0)
        bias = tl.load(bias_ptr + cols, mask=mask, other=0.0)
        tl.store(y_ptr + row * n_cols + cols, scaled(x, gain, bias), mask=mask)

    return kernel


class NewModel(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))
        self.block = 1024
        self.kernel = make(self.block)

    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        self.kernel[(rows, triton.cdiv(cols, self.block))](x, self.gain, self.bias, y, cols)
        return y
