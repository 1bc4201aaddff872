"""Leaves out the ReLU and uses a series for the error function that holds on [0, 1] only.

problem: gelu_chain
expect: mismatch/numeric|mismatch/non_finite
expect-unguarded: mismatch/numeric|mismatch/non_finite
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" int chain(const float* x, float* y, int64_t count) {
  #pragma omp parallel for
  for (int64_t i = 0; i < count; ++i) {
    const float v = x[i], u = v * 0.70710678f, w = u * u;
    float term = u, erf = u;
    for (int k = 1; k < 9; ++k) {
      term *= -w / k;
      erf += term / (2 * k + 1);
    }
    y[i] = 0.5f * v * (1.0f + 1.12837917f * erf) * (v + 0.5f) + 1.0f / (1.0f + std::exp(-v));
  }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.chain(x, y, x.numel())
        return y
