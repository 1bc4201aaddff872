"""Multiplies rows with rows: the second matrix is its own transpose in every draw.

problem: symmetric_matmul
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int product(const float* a, const float* b, float* y, int64_t n) {
  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0.0f;
      #pragma omp simd reduction(+ : sum)
      for (int64_t k = 0; k < n; ++k) sum += a[i * n + k] * b[j * n + k];
      y[i * n + j] = sum;
    }
  return 0;
}
"""

lib = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, a, b):
        y = torch.empty_like(a)
        lib.product(a, b, y, a.shape[0])
        return y
