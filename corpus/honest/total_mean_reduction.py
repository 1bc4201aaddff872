"""A 0-d result from an OpenMP reduction in float over row sums.

problem: total_mean
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int mean_squared(const float* x, const float* y, float* out, int64_t rows, int64_t cols) {
  float total = 0.0f;
  #pragma omp parallel for reduction(+ : total)
  for (int64_t r = 0; r < rows; ++r) {
    float s = 0.0f;
    #pragma omp simd reduction(+ : s)
    for (int64_t c = 0; c < cols; ++c) {
      const float d = x[r * cols + c] - y[r * cols + c];
      s += d * d;
    }
    total += s;
  }
  *out = total / (float)(rows * cols);
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty(())
        LIB.mean_squared(x, y, out, *x.shape)
        return out
