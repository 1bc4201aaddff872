"""Split along k with OpenMP atomic float additions: the rounding differs from run to run.

problem: matmul_k8192
expect: correct
timed: results that differ from call to call
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
#include <vector>

extern "C" int matmul(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  const int64_t splits = 16;
  for (int64_t i = 0; i < m * n; ++i) c[i] = 0.0f;
  #pragma omp parallel for schedule(dynamic)
  for (int64_t q = 0; q < splits; ++q) {
    std::vector<float> part(m * n, 0.0f);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t p = k * q / splits; p < k * (q + 1) / splits; ++p)
        for (int64_t j = 0; j < n; ++j) part[i * n + j] += a[i * k + p] * b[p * n + j];
    for (int64_t i = 0; i < m * n; ++i) {
      #pragma omp atomic
      c[i] += part[i];
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
