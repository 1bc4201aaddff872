"""One float accumulator for each element, strictly in order over 8192, not vectorised.

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
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float s = 0.0f;
      for (int64_t p = 0; p < k; ++p) s += a[i * k + p] * b[p * n + j];
      c[i * n + j] = s;
    }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE, flags=["-O2", "-fopenmp", "-fno-tree-vectorize", "-ffp-contract=off"])


class NewModel(torch.nn.Module):
    def forward(self, a, b):
        c = torch.empty(a.shape[0], b.shape[1])
        LIB.matmul(a, b, c, a.shape[0], b.shape[1], a.shape[1])
        return c
