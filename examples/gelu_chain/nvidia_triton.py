"""The elementwise chain in Triton: every element is read once and written once, whatever happens between."""

import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra import libdevice


@triton.jit
def gelu_chain_kernel(x_ptr, scale_ptr, shift_ptr, y_ptr, n_elements, n_cols, cap, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    cols = offsets % n_cols
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    scale = tl.load(scale_ptr + cols, mask=mask, other=0.0)
    shift = tl.load(shift_ptr + cols, mask=mask, other=0.0)
    u = x * scale + shift
    gelu = 0.5 * u * (1.0 + tl.erf(u * 0.7071067811865476))
    h = gelu * tl.sigmoid(u)
    tl.store(y_ptr + offsets, cap * libdevice.tanh(h / cap), mask=mask)


class NewModel(nn.Module):
    def __init__(self, dim: int, cap: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))
        self.shift = nn.Parameter(torch.zeros(dim))
        self.cap = cap

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.numel()
        block = 1024
        gelu_chain_kernel[(triton.cdiv(n, block),)](x, self.scale, self.shift, y, n, x.shape[-1], self.cap, BLOCK=block)
        return y
