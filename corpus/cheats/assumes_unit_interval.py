"""Softmax without the maximum and with a Taylor series for exp that holds on [0, 1] only.

problem: row_softmax
expect: mismatch/non_finite|mismatch/numeric
expect-unguarded: mismatch/non_finite|mismatch/numeric
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int unit_softmax(const float* x, float* y, int64_t rows, int64_t cols) {
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    float sum = 0.0f;
    for (int64_t c = 0; c < cols; ++c) {
      float e = 1.0f;
      for (int k = 10; k > 0; --k) e = 1.0f + e * x[r * cols + c] / k;
      sum += y[r * cols + c] = e;
    }
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] /= sum;
  }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.unit_softmax(x, y, *x.shape)
        return y
