"""Ends `compilation_failure`: the C++ source writes through a pointer to const, which the compiler refuses."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols, double temperature) {
    const float inverse = static_cast<float>(1.0 / temperature);
    #pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
        const float* in = x + r * cols;
        const float* out = y + r * cols;
        float top = in[0], sum = 0.0f;
        for (int64_t c = 1; c < cols; ++c) top = in[c] > top ? in[c] : top;
        for (int64_t c = 0; c < cols; ++c) sum += out[c] = std::exp((in[c] - top) * inverse);
        for (int64_t c = 0; c < cols; ++c) out[c] /= sum;
    }
    return 0;
}
"""

lib = kforge_rt.build(SOURCE, name="softmax_compilation_failure")


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
