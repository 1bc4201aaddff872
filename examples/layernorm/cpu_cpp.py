"""Residual add and LayerNorm in one visit to memory: the sum of a row waits in the output row until it is normalised."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" int add_layernorm(const float* x, const float* residual, const float* weight, const float* bias, float* y,
                             int64_t rows, int64_t cols, double eps) {
    #pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
        const float* a = x + r * cols;
        const float* b = residual + r * cols;
        float* out = y + r * cols;
        float sum = 0.0f;
        #pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < cols; ++c) {
            const float s = a[c] + b[c];
            out[c] = s;
            sum += s;
        }
        const float mean = sum / cols;
        // Fetch the next row while this one is finished, or arithmetic and memory take turns.
        if (r + 1 < rows)
            for (int64_t c = 0; c < cols; c += 16) {
                __builtin_prefetch(a + cols + c);
                __builtin_prefetch(b + cols + c);
            }
        // A second pass over a cached row is cheaper than Welford's divisions and more exact than E[s^2] - mean^2.
        float squares = 0.0f;
        #pragma omp simd reduction(+ : squares)
        for (int64_t c = 0; c < cols; ++c) {
            const float d = out[c] - mean;
            squares += d * d;
        }
        const float scale = 1.0f / std::sqrt(squares / cols + static_cast<float>(eps));
        #pragma omp simd
        for (int64_t c = 0; c < cols; ++c) out[c] = (out[c] - mean) * scale * weight[c] + bias[c];
    }
    return 0;
}
"""

FLAGS = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
lib = kforge_rt.build(SOURCE, flags=FLAGS, name="layernorm")


class NewModel(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)  # holds the parameters and eps; its forward is not called

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        x, residual = x.contiguous(), residual.contiguous()
        y = torch.empty_like(x)
        cols = x.shape[-1]
        lib.add_layernorm(
            x, residual, self.norm.weight, self.norm.bias, y, x.numel() // cols, cols, float(self.norm.eps)
        )
        return y
