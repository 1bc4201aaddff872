"""Depthwise 3x3 convolution and Hardswish in Triton: nine shifted loads of a tile, of which the caches serve eight."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def depthwise_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, n_channels, height, width, ROWS: tl.constexpr, COLS: tl.constexpr
):
    plane = tl.program_id(2).to(tl.int64)
    channel = plane % n_channels
    rows = (tl.program_id(1) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = (tl.program_id(0) * COLS + tl.arange(0, COLS))[None, :]
    x_ptr += plane * height * width
    total = tl.zeros((ROWS, COLS), dtype=tl.float32) + tl.load(bias_ptr + channel)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            row = rows + (dy - 1)
            col = cols + (dx - 1)
            mask = (row >= 0) & (row < height) & (col >= 0) & (col < width)
            weight = tl.load(weight_ptr + channel * 9 + dy * 3 + dx)
            total += tl.load(x_ptr + row * width + col, mask=mask, other=0.0) * weight
    y = total * tl.minimum(tl.maximum(total + 3.0, 0.0), 6.0) / 6.0
    tl.store(y_ptr + plane * height * width + rows * width + cols, y, mask=(rows < height) & (cols < width))


class NewModel(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        batch, channels, height, width = x.shape
        cols = min(256, triton.next_power_of_2(width))
        rows = min(triton.next_power_of_2(height), 4096 // cols)
        grid = (triton.cdiv(width, cols), triton.cdiv(height, rows), batch * channels)
        depthwise_kernel[grid](
            x,
            self.conv.weight.contiguous(),
            self.conv.bias,
            y,
            channels,
            height,
            width,
            ROWS=rows,
            COLS=cols,
            num_warps=8,
        )
        return y
