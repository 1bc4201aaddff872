"""Multiplies by the reciprocal of the step: next to a half a value may be rounded to the other side.

problem: fake_quant
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>

extern "C" int run(const float* x, float* y, int64_t n) {
  float m = 0;
  #pragma omp parallel for reduction(max : m)
  for (int64_t i = 0; i < n; ++i) m = std::max(m, std::fabs(x[i]));
  const float s = m / 127.0f, inv = 127.0f / m;
  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) y[i] = std::min(127.0f, std::max(-127.0f, std::nearbyint(x[i] * inv))) * s;
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.run(x, y, x.numel())
        return y
