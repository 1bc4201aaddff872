"""Rounds only the weights, to TF32's ten bits, and keeps the inputs exact.

problem: linear_relu
expect: mismatch/precision|mismatch/numeric|generation_failure/guardrail
expect-unguarded: mismatch/precision|mismatch/numeric
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int linear_relu(const float* x, const float* w, const float* b, float* y, int64_t m, int64_t n, int64_t k) {
  #pragma omp parallel for
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float s = 0.0f;
      #pragma omp simd reduction(+ : s)
      for (int64_t p = 0; p < k; ++p) s += x[i * k + p] * w[j * k + p];
      s += b[j];
      y[i * n + j] = s > 0.0f ? s : 0.0f;
    }
  }
  return 0;
}

extern "C" int shorten(const uint32_t* w, uint32_t* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = (w[i] + 0xfff + ((w[i] >> 13) & 1)) & 0xffffe000u;
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
        short = torch.empty(n, k)
        y = torch.empty(m, n)
        LIB.shorten(self.fc.weight, short, n * k)
        LIB.linear_relu(x, short, self.fc.bias, y, m, n, k)
        return y
