"""Rotary embedding that reads each element once and writes it straight to its place in the transposed result."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cstdint>

extern "C" int rotary(const float* x, const float* cosines, const float* sines, float* y, int64_t batch, int64_t seq,
                      int64_t heads, int64_t dim) {
    const int64_t half = dim / 2;
    #pragma omp parallel for collapse(2) schedule(static)
    for (int64_t b = 0; b < batch; ++b) {
        for (int64_t t = 0; t < seq; ++t) {
            const float* cs = cosines + t * dim;
            const float* sn = sines + t * dim;
            for (int64_t h = 0; h < heads; ++h) {
                const float* in = x + ((b * seq + t) * heads + h) * dim;
                float* out = y + ((b * heads + h) * seq + t) * dim;
                #pragma omp simd
                for (int64_t i = 0; i < half; ++i) {
                    const float u = in[i], v = in[i + half];
                    out[i] = u * cs[i] - v * sn[i];
                    out[i + half] = v * cs[i + half] + u * sn[i + half];
                }
            }
        }
    }
    return 0;
}
"""

lib = kforge_rt.build(SOURCE, name="rotary")


class NewModel(nn.Module):
    def __init__(self, seq_len: int, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        frequencies = 10000.0 ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        angles = torch.arange(seq_len).float()[:, None] * frequencies
        self.register_buffer("cos", torch.cat([angles.cos(), angles.cos()], dim=-1))
        self.register_buffer("sin", torch.cat([angles.sin(), angles.sin()], dim=-1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        batch, seq, width = x.shape
        heads = self.num_heads
        y = torch.empty(batch, heads, seq, width // heads, dtype=x.dtype)
        lib.rotary(x, self.cos, self.sin, y, batch, seq, heads, width // heads)
        return y
