"""The product by the vendor's library, everything after it in one Triton kernel that reads and writes the result once."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def norm_tail_kernel(
    h_ptr, gain_ptr, bias_ptr, weight_ptr, n_pairs, n_groups, size, eps, PAIRS: tl.constexpr, BLOCK: tl.constexpr
):
    # A pair is one row and one of its groups; the pairs of a row lie side by side.
    pairs = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    inner = tl.arange(0, BLOCK)
    mask = (pairs[:, None] < n_pairs) & (inner[None, :] < size)
    offsets = pairs[:, None].to(tl.int64) * size + inner[None, :]
    columns = (pairs % n_groups)[:, None] * size + inner[None, :]
    h = tl.load(h_ptr + offsets, mask=mask, other=0.0)
    mean = tl.sum(h, axis=1) / size
    centred = tl.where(mask, h - mean[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / size + eps)
    gain = tl.load(gain_ptr + columns, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + columns, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0)
    v = centred * scale[:, None] * gain + bias
    v = v / (1.0 + tl.exp(-v)) * weight
    tl.store(h_ptr + offsets, v / (1.0 + tl.exp(-v)), mask=mask)


class NewModel(nn.Module):
    def __init__(self, in_features: int, out_features: int, num_groups: int) -> None:
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.group_norm = nn.GroupNorm(num_groups, out_features)  # holds parameters; its forward is not called
        self.multiply_weight = nn.Parameter(torch.randn(out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.gemm(x).contiguous()
        rows, cols = h.shape
        norm = self.group_norm
        size = cols // norm.num_groups
        block = triton.next_power_of_2(size)
        pairs = max(1, 2048 // block)
        grid = (triton.cdiv(rows * norm.num_groups, pairs),)
        norm_tail_kernel[grid](
            h,
            norm.weight,
            norm.bias,
            self.multiply_weight,
            rows * norm.num_groups,
            norm.num_groups,
            size,
            norm.eps,
            PAIRS=pairs,
            BLOCK=block,
            num_warps=4,
        )
        return h
