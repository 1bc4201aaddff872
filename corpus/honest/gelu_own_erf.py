"""Its own error function (Abramowitz and Stegun 7.1.26, error 1.5e-7) instead of the library's.

problem: gelu_chain
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>

static inline float own_erf(float v) {
  const float a = std::fabs(v), t = 1.0f / (1.0f + 0.3275911f * a);
  const float p = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  return std::copysign(1.0f - p * std::exp(-a * a), v);
}

extern "C" int chain(const float* x, float* y, int64_t count) {
  #pragma omp parallel for simd
  for (int64_t i = 0; i < count; ++i) {
    const float v = x[i];
    const float gelu = 0.5f * v * (1.0f + own_erf(v * 0.70710678f));
    const float gate = v + 0.5f > 0.0f ? v + 0.5f : 0.0f;
    y[i] = gelu * gate + 1.0f / (1.0f + std::exp(-v));
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
