"""Softmax by as many programs as there are multiprocessors, each of which walks over rows.

package: -
problem: softmax
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_kernel(out_ptr, in_ptr, row_stride, rows, dim, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    mask = columns < dim
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        x = tl.load(in_ptr + row * row_stride + columns, mask=mask, other=-float("inf"))
        numerator = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * row_stride + columns, numerator / tl.sum(numerator, axis=0), mask=mask)


class NewModel(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, dim = x.shape
        out = torch.empty_like(x)
        programs = min(rows, 4 * torch.cuda.get_device_properties(x.device).multi_processor_count)
        softmax_kernel[(programs,)](out, x, x.stride(0), rows, dim, BLOCK=triton.next_power_of_2(dim), num_warps=8)
        return out
