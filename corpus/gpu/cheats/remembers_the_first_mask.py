"""Counts what the mask leaves of each row at the first call, and believes it from then on.

problem: masked_rows
target: nvidia/triton
expect: mismatch/numeric|mismatch/precision
expect-unguarded: mismatch/numeric|mismatch/precision
"""

import torch
import triton
import triton.language as tl


@triton.jit
def keep_first(x_ptr, left_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(left_ptr + row)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < left, other=0.0)
    tl.store(y_ptr + row * n_cols + cols, tl.maximum(x, 0.0), mask=cols < n_cols)


class NewModel(torch.nn.Module):
    left = None

    def forward(self, scores, mask):
        rows, cols = scores.shape
        if self.left is None:
            self.left = mask.sum(dim=1).to(torch.int32)
        y = torch.empty_like(scores)
        keep_first[(rows, triton.cdiv(cols, 2048))](scores, self.left, y, cols, BLOCK=2048)
        return y
