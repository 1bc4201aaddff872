"""Gated RMSNorm in one visit to memory: the gated row waits in the output row, and its exponential is computed once."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <cstring>

// e^x to about one ulp, held inside [e^-87, e^88] (enough for a sigmoid). No call and no branch, so loops over it vectorise.
static inline float exp_sat(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    const float n = std::nearbyint(x * 1.44269504f);
    float r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
    float power;
    std::memcpy(&power, &bits, sizeof power);
    return p * power;
}

extern "C" int gated_rmsnorm(const float* x, const float* gate, const float* weight, float* y, int64_t rows,
                             int64_t cols, double eps) {
    #pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
        const float* a = x + r * cols;
        const float* g = gate + r * cols;
        float* out = y + r * cols;
        float squares = 0.0f;
        #pragma omp simd reduction(+ : squares)
        for (int64_t c = 0; c < cols; ++c) {
            const float h = a[c] * (g[c] / (1.0f + exp_sat(-g[c])));
            out[c] = h;
            squares += h * h;
        }
        const float scale = 1.0f / std::sqrt(squares / cols + static_cast<float>(eps));
        #pragma omp simd
        for (int64_t c = 0; c < cols; ++c) out[c] = out[c] * scale * weight[c];
    }
    return 0;
}
"""

FLAGS = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
lib = kforge_rt.build(SOURCE, flags=FLAGS, name="rmsnorm")


class NewModel(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        x, gate = x.contiguous(), gate.contiguous()
        y = torch.empty_like(x)
        cols = x.shape[-1]
        lib.gated_rmsnorm(x, gate, self.weight, y, x.numel() // cols, cols, float(self.eps))
        return y
