"""RMSNorm over channels in Triton: a tile of all channels of some places is read once."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rms_kernel(x_ptr, gain_ptr, y_ptr, n_channels, n_places, eps, CHANNELS: tl.constexpr, PLACES: tl.constexpr):
    channels = tl.arange(0, CHANNELS)
    places = tl.program_id(0).to(tl.int64) * PLACES + tl.arange(0, PLACES)
    mask = (channels[:, None] < n_channels) & (places[None, :] < n_places)
    first = tl.program_id(1).to(tl.int64) * n_channels * n_places
    offsets = first + channels[:, None].to(tl.int64) * n_places + places[None, :]
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0, eviction_policy="evict_first")
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / n_channels + eps)
    gain = tl.load(gain_ptr + channels, mask=channels < n_channels, other=0.0)
    tl.store(y_ptr + offsets, x * scale[None, :] * gain[:, None], mask=mask)


class NewModel(nn.Module):
    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        batch, channels, length = x.shape
        block_c = triton.next_power_of_2(channels)
        block_p = max(16, 8192 // block_c)  # 32 KiB of registers for a program
        grid = (triton.cdiv(length, block_p), batch)
        rms_kernel[grid](x, self.gain, y, channels, length, self.eps, CHANNELS=block_c, PLACES=block_p, num_warps=8)
        return y
