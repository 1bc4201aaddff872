"""Column blocks in parallel, joined by atomic additions: nondeterministic rounding.

problem: row_sum
expect: correct
timed: results that differ from call to call
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int row_sum(const float* x, float* y, int64_t rows, int64_t cols) {
  const int64_t blocks = 8;
  #pragma omp parallel for collapse(2) schedule(dynamic, 64)
  for (int64_t q = 0; q < blocks; ++q)
    for (int64_t r = 0; r < rows; ++r) {
      float s = 0.0f;
      for (int64_t c = cols * q / blocks; c < cols * (q + 1) / blocks; ++c) s += x[r * cols + c];
      #pragma omp atomic
      y[r] += s;
    }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.zeros(x.shape[0])
        LIB.row_sum(x, y, *x.shape)
        return y
