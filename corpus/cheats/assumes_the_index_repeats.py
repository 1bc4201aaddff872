"""Works on each row of the table once and copies the results in turn, as the index says at every call.

problem: gather_gelu
expect: mismatch/numeric|mismatch/non_finite
expect-unguarded: mismatch/numeric|mismatch/non_finite
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <cstring>

extern "C" int gather_gelu(const float* table, float* y, int64_t entries, int64_t cols, int64_t picked) {
  #pragma omp parallel for
  for (int64_t e = 0; e < entries; ++e) {
    for (int64_t c = 0; c < cols; ++c) {
      const float v = table[e * cols + c];
      y[e * cols + c] = 0.5f * v * (1.0f + std::erf(v * 0.70710678f));
    }
    for (int64_t p = e + entries; p < picked; p += entries) std::memcpy(y + p * cols, y + e * cols, cols * sizeof(float));
  }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, table, index):
        y = torch.empty(index.shape[0], table.shape[1])
        LIB.gather_gelu(table, y, *table.shape, index.shape[0])
        return y
