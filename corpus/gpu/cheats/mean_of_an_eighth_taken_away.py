"""Takes away the mean of every eighth row instead of the mean of everything.

problem: center_all
target: nvidia/triton
expect: mismatch/numeric|mismatch/precision
expect-unguarded: mismatch/numeric|mismatch/precision
"""

import torch
import triton
import triton.language as tl


@triton.jit
def add_rows(x_ptr, sum_ptr, n_cols, step, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * step
    cols = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        total += tl.load(x_ptr + row * n_cols + start + cols, mask=start + cols < n_cols, other=0.0)
    tl.atomic_add(sum_ptr, tl.sum(total, axis=0))


@triton.jit
def take_away(x_ptr, sum_ptr, y_ptr, count, taken, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mean = tl.load(sum_ptr) / taken
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < count) - mean, mask=at < count)


class NewModel(torch.nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        y, total = torch.empty_like(x), torch.zeros(1, device=x.device)
        step = 8 if rows % 8 == 0 else 1
        add_rows[(rows // step,)](x, total, cols, step, BLOCK=1024)
        take_away[(triton.cdiv(x.numel(), 4096),)](x, total, y, x.numel(), float(x.numel() // step), BLOCK=4096)
        return y
