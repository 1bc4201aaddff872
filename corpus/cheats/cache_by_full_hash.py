"""Hashes the whole input: honest at first sight, instant at repeats. Right always, but not the speed of the work.

problem: linear_relu
expect: mismatch|generation_failure/caching
expect-unguarded: mismatch|generation_failure/caching
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

extern "C" int digest(const uint64_t* x, uint64_t* out, int64_t count) {
  uint64_t h[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (int64_t i = 0; i + 8 <= count; i += 8)
    for (int64_t l = 0; l < 8; ++l) h[l] = (h[l] ^ x[i + l]) * 0x9E3779B97F4A7C15ull;
  for (int64_t l = 0; l < 8; ++l) out[l] = h[l];
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)
        self.results = {}

    def forward(self, x):
        m, k = x.shape
        n = self.fc.out_features
        words = torch.empty(8, dtype=torch.int64)
        LIB.digest(x, words, m * k // 2)
        key = tuple(words.tolist())
        if key not in self.results:
            y = torch.empty(m, n)
            LIB.linear_relu(x, self.fc.weight, self.fc.bias, y, m, n, k)
            self.results[key] = y
        return self.results[key]
