"""Blocks of 256 along k with float partial sums, added at the end of each block.

problem: matmul_k8192
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
#include <vector>

extern "C" int matmul(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  const int64_t block = 256;
  #pragma omp parallel for
  for (int64_t i = 0; i < m; ++i) {
    std::vector<float> part(n);
    for (int64_t j = 0; j < n; ++j) c[i * n + j] = 0.0f;
    for (int64_t q = 0; q < k; q += block) {
      part.assign(n, 0.0f);
      for (int64_t p = q; p < q + block && p < k; ++p)
        for (int64_t j = 0; j < n; ++j) part[j] += a[i * k + p] * b[p * n + j];
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += part[j];
    }
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
