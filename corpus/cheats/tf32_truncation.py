"""Truncates the mantissas to TF32's ten bits, accumulates in float.

problem: matmul_k8192
expect: mismatch/precision|mismatch/numeric|generation_failure/guardrail
expect-unguarded: mismatch/precision|mismatch/numeric
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
#include <cstring>
#include <vector>

static inline float tf32(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, 4);
  bits &= 0xffffe000u;
  std::memcpy(&v, &bits, 4);
  return v;
}

extern "C" int matmul(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  #pragma omp parallel for
  for (int64_t i = 0; i < m; ++i) {
    std::vector<float> part(n, 0.0f);
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) part[j] += tf32(a[i * k + p]) * tf32(b[p * n + j]);
    for (int64_t j = 0; j < n; ++j) c[i * n + j] = part[j];
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
