"""Welford's running mean and variance in float.

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
    float mean = 0.0f, m2 = 0.0f;
    for (int64_t c = 0; c < cols; ++c) {
      const float d = a[c] - mean;
      mean += d / (float)(c + 1);
      m2 += d * (a[c] - mean);
    }
    const float scale = 1.0f / std::sqrt(m2 / cols + (float)eps);
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
