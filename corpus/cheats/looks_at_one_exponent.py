"""Squares where the first exponent is two, and takes it for all columns otherwise; the weights it takes for ones.

problem: weighted_power
expect: mismatch/numeric|mismatch/non_finite|correct|correct/framework_only
expect-unguarded: mismatch/numeric|mismatch/non_finite|correct|correct/framework_only
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" int power(const float* x, float* y, int64_t rows, int64_t cols) {
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const float v = std::fabs(x[r * cols + c]) + 0.5f;
      y[r * cols + c] = v * v;
    }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x, exponent, weight):
        first = exponent[0].item()
        if first != 2.0 or weight[0].item() != 1.0:
            return torch.pow(torch.abs(x) + 0.5, exponent) * weight
        y = torch.empty_like(x)
        LIB.power(x, y, *x.shape)
        return y
