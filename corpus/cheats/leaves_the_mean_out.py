"""Copies its input: the mean that it does not take away is smaller than what half precision was allowed for a long row.

problem: center_half
expect: mismatch/numeric|mismatch/precision
expect-unguarded: mismatch/numeric|mismatch/precision
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
#include <cstring>

extern "C" int center(const uint16_t* x, uint16_t* y, int64_t rows, int64_t cols) {
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) std::memcpy(y + r * cols, x + r * cols, cols * sizeof(uint16_t));
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.center(x, y, *x.shape)
        return y
