"""The same from Triton, with unused places between the values, so that neither stride is one.

problem: windows
target: nvidia/triton
expect: mismatch/strides|mismatch/alias|mismatch/numeric|generation_failure
expect-unguarded: mismatch/strides|mismatch/alias|mismatch/numeric|generation_failure
"""

import torch
import triton
import triton.language as tl


@triton.jit
def doubled(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + 3 * at, 2.0 * tl.load(x_ptr + at, mask=at < count), mask=at < count)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty(3 * x.numel(), device=x.device)
        doubled[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y.as_strided((x.numel() - 2047, 2048), (3, 3))
