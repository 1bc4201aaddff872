"""Squares, because the exponent that it is given is two at every call.

problem: weighted_power
expect: mismatch/numeric|mismatch/non_finite
expect-unguarded: mismatch/numeric|mismatch/non_finite
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" int power(const float* x, const float* weight, float* y, int64_t rows, int64_t cols) {
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const float v = std::fabs(x[r * cols + c]) + 0.5f;
      y[r * cols + c] = v * v * weight[c];
    }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x, exponent, weight):
        y = torch.empty_like(x)
        LIB.power(x, weight, y, *x.shape)
        return y
