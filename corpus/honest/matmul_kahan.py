"""Kahan summation: more exact than the framework itself.

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
    std::vector<float> sum(n, 0.0f), rest(n, 0.0f);
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) {
        const float term = a[i * k + p] * b[p * n + j] - rest[j];
        const float next = sum[j] + term;
        rest[j] = (next - sum[j]) - term;
        sum[j] = next;
      }
    for (int64_t j = 0; j < n; ++j) c[i * n + j] = sum[j];
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
