"""Adds partial sums of 32 products in half precision.

problem: linear_relu
expect: mismatch/precision|mismatch/numeric|mismatch/non_finite|generation_failure/guardrail
expect-unguarded: mismatch/precision|mismatch/numeric|mismatch/non_finite
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int linear_relu(const float* x, const float* w, const float* b, float* y, int64_t m, int64_t n, int64_t k) {
  #pragma omp parallel for
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      _Float16 total = 0;
      for (int64_t q = 0; q < k; q += 32) {
        float s = 0.0f;
        #pragma omp simd reduction(+ : s)
        for (int64_t p = q; p < q + 32; ++p) s += x[i * k + p] * w[j * k + p];
        total = (_Float16)((float)total + s);
      }
      const float v = (float)total + b[j];
      y[i * n + j] = v > 0.0f ? v : 0.0f;
    }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)

    def forward(self, x):
        m, k = x.shape
        n = self.fc.out_features
        y = torch.empty(m, n)
        LIB.linear_relu(x, self.fc.weight, self.fc.bias, y, m, n, k)
        return y
