"""Ends `mismatch`: the blocked sum uses `<` where it needs `<=` and leaves the last 64 columns out of the denominator."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols, double temperature) {
    const float inverse = static_cast<float>(1.0 / temperature);
    constexpr int64_t block = 64;
    #pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
        const float* in = x + r * cols;
        float* out = y + r * cols;
        float top = in[0];
        for (int64_t c = 1; c < cols; ++c) top = in[c] > top ? in[c] : top;
        for (int64_t c = 0; c < cols; ++c) out[c] = std::exp((in[c] - top) * inverse);
        float sum = 0.0f;
        for (int64_t start = 0; start + block < cols; start += block)
            for (int64_t c = start; c < start + block; ++c) sum += out[c];
        for (int64_t c = 0; c < cols; ++c) out[c] /= sum;
    }
    return 0;
}
"""

lib = kforge_rt.build(SOURCE, name="softmax_mismatch")


class NewModel(nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        cols = x.shape[-1]
        lib.softmax(x, y, x.numel() // cols, cols, float(self.temperature))
        return y
