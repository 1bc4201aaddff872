"""Ends `runtime_error`: the launcher keeps a row in a buffer of 1024 floats and returns 1 for the problem's longer rows."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols, double temperature) {
    constexpr int64_t capacity = 1024;
    if (cols > capacity) return 1;
    const float inverse = static_cast<float>(1.0 / temperature);
    #pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
        const float* in = x + r * cols;
        float row[capacity];
        float top = in[0], sum = 0.0f;
        for (int64_t c = 1; c < cols; ++c) top = in[c] > top ? in[c] : top;
        for (int64_t c = 0; c < cols; ++c) sum += row[c] = std::exp((in[c] - top) * inverse);
        for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = row[c] / sum;
    }
    return 0;
}
"""

lib = kforge_rt.build(SOURCE, name="softmax_runtime_error")


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
