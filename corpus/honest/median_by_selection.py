"""Selects instead of sorting: among equal values it returns another place.

problem: median_rows
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

extern "C" int run(const float* x, float* y, int64_t* z, int64_t rows, int64_t n) {
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * n; std::vector<int64_t> o(n);
    std::iota(o.begin(), o.end(), 0);
    std::nth_element(o.begin(), o.begin() + (n - 1) / 2, o.end(), [a](int64_t i, int64_t j) { return a[i] < a[j]; });
    z[r] = o[(n - 1) / 2]; y[r] = a[z[r]];
  }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y, z = torch.empty(x.shape[0]), torch.empty(x.shape[0], dtype=torch.int64)
        LIB.run(x, y, z, *x.shape)
        return y, z
