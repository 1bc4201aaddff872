"""Bias, ReLU and row normalisation in one trip to memory: a row waits in cache between its two passes."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cstdint>

extern "C" int relu_mix(const float* x, const float* bias, float* y, int64_t rows, int64_t cols, double eps) {
    #pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
        const float* in = x + r * cols;
        float* out = y + r * cols;
        float sum = 0.0f;
        #pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < cols; ++c) {
            const float shifted = in[c] + bias[c];
            const float h = shifted < 0.0f ? 0.0f : shifted;  // this way round a NaN stays a NaN, as in the framework
            out[c] = h;
            sum += h;
        }
        const float divisor = sum + static_cast<float>(eps);
        #pragma omp simd
        for (int64_t c = 0; c < cols; ++c) out[c] /= divisor;
    }
    return 0;
}
"""

FLAGS = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
lib = kforge_rt.build(SOURCE, flags=FLAGS, name="relu_mix")


class NewModel(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(dim))  # same name and shape as the reference's: its value is copied in
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        cols = x.shape[-1]
        lib.relu_mix(x, self.bias, y, x.numel() // cols, cols, float(self.eps))
        return y
