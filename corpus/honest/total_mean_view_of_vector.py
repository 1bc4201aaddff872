"""The scalar is element 0 of a longer vector: a 0-d view with an offset.

problem: total_mean
expect: correct
timed: memory of its results
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int partial_sums(const float* x, const float* y, double* sums, int64_t parts, int64_t count) {
  #pragma omp parallel for
  for (int64_t p = 0; p < parts; ++p) {
    double s = 0.0;
    for (int64_t i = count * p / parts; i < count * (p + 1) / parts; ++i) {
      const double d = (double)x[i] - y[i];
      s += d * d;
    }
    sums[p] = s;
  }
  return 0;
}

extern "C" int finish(const double* sums, float* out, int64_t parts, int64_t count) {
  double s = 0.0;
  for (int64_t p = 0; p < parts; ++p) s += sums[p];
  out[1] = (float)(s / count);
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x, y):
        sums = torch.empty(32, dtype=torch.float64)
        out = torch.empty(4)
        LIB.partial_sums(x, y, sums, 32, x.numel())
        LIB.finish(sums, out, 32, x.numel())
        return out[1]
