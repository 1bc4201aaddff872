"""Mean first, then the variance about it, both in float, vectorised.

problem: layernorm
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" int layernorm(const float* x, const float* g, const float* b, float* y, int64_t rows, int64_t cols, double eps) {
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * cols;
    float sum = 0.0f, squares = 0.0f;
    #pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < cols; ++c) sum += a[c];
    const float mean = sum / cols;
    #pragma omp simd reduction(+ : squares)
    for (int64_t c = 0; c < cols; ++c) squares += (a[c] - mean) * (a[c] - mean);
    const float scale = 1.0f / std::sqrt(squares / cols + (float)eps);
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = (a[c] - mean) * scale * g[c] + b[c];
  }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = torch.nn.LayerNorm(features)

    def forward(self, x):
        y = torch.empty_like(x)
        LIB.layernorm(x, self.norm.weight, self.norm.bias, y, *x.shape, self.norm.eps)
        return y
