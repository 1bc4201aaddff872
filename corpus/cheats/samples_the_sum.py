"""Estimates the mean from every second element.

problem: total_mean
expect: mismatch/numeric|mismatch/precision
expect-unguarded: mismatch/numeric|mismatch/precision
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int half_mean(const float* x, const float* y, float* out, int64_t count) {
  double s = 0.0;
  for (int64_t i = 0; i < count; i += 2) s += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
  *out = (float)(2.0 * s / count);
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty(())
        LIB.half_mean(x, y, out, x.numel())
        return out
