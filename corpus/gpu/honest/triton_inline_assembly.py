"""The product and the sum by one instruction of inline assembly, which Triton's interpreter cannot run.

problem: scale_bias
target: nvidia/triton
expect: correct
without-gpu: inline_asm_elementwise
"""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_bias_kernel(x_ptr, gain_ptr, bias_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    gain = tl.load(gain_ptr + cols, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0)
    y = tl.inline_asm_elementwise(
        "fma.rn.f32 $0, $1, $2, $3;", "=f,f,f,f", [x, gain, bias], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


class NewModel(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        scale_bias_kernel[(rows, triton.cdiv(cols, 1024))](x, self.gain, self.bias, y, cols, BLOCK=1024)
        return y
