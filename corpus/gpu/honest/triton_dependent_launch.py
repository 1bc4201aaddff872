"""Waits for the grid before it and lets the next one start early (programmatic dependent launch).

problem: scale_bias
target: nvidia/triton
expect: correct
"""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_bias_kernel(x_ptr, gain_ptr, bias_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    tl.extra.cuda.gdc_wait()
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    gain = tl.load(gain_ptr + cols, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0)
    tl.extra.cuda.gdc_launch_dependents()
    tl.store(y_ptr + row * n_cols + cols, x * gain + bias, mask=mask)


class NewModel(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        grid = (rows, triton.cdiv(cols, 1024))
        scale_bias_kernel[grid](x, self.gain, self.bias, y, cols, BLOCK=1024, launch_pdl=True)
        return y
