"""Accumulates in double, rounds at the end.

problem: matmul_k8192
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
#include <vector>

extern "C" int matmul(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  #pragma omp parallel for
  for (int64_t i = 0; i < m; ++i) {
    std::vector<double> sum(n, 0.0);
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) sum[j] += (double)a[i * k + p] * b[p * n + j];
    for (int64_t j = 0; j < n; ++j) c[i * n + j] = (float)sum[j];
  }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, a, b):
        c = torch.empty(a.shape[0], b.shape[1])
        LIB.matmul(a, b, c, a.shape[0], b.shape[1], a.shape[1])
        return c
