"""One pass: sum and sum of squares in double.

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
    double sum = 0.0, squares = 0.0;
    for (int64_t c = 0; c < cols; ++c) {
      sum += a[c];
      squares += (double)a[c] * a[c];
    }
    const double mean = sum / cols;
    const double scale = 1.0 / std::sqrt(squares / cols - mean * mean + eps);
    const float s = (float)scale, shift = (float)(-mean * scale);
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = (a[c] * s + shift) * g[c] + b[c];
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
