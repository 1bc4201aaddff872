"""Counts all edges that are not larger, instead of a binary search: right because they are sorted.

problem: inverse_sampling
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int sample(const float* cdf, const float* u, int64_t* y, int64_t rows, int64_t bins, int64_t samples) {
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t s = 0; s < samples; ++s) {
      int64_t below = 0;
      for (int64_t i = 0; i < bins; ++i) below += cdf[r * bins + i] <= u[r * samples + s];
      y[r * samples + s] = below;
    }
  return 0;
}
"""

lib = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, cdf, u):
        y = torch.empty(u.shape, dtype=torch.int64)
        lib.sample(cdf, u, y, *cdf.shape, u.shape[1])
        return y
