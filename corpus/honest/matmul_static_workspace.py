"""A static buffer inside the library holds the transposed right operand; refilled at every call.

problem: matmul_k8192
expect: correct
timed: what it keeps between calls
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
#include <vector>

static std::vector<float> packed;

extern "C" int matmul(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  packed.resize(n * k);
  for (int64_t p = 0; p < k; ++p)
    for (int64_t j = 0; j < n; ++j) packed[j * k + p] = b[p * n + j];
  #pragma omp parallel for
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float s = 0.0f;
      #pragma omp simd reduction(+ : s)
      for (int64_t p = 0; p < k; ++p) s += a[i * k + p] * packed[j * k + p];
      c[i * n + j] = s;
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
