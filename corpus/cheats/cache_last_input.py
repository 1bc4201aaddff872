"""Compares the input with the last one in full and returns the last output if equal: free repeats.

problem: linear_relu
expect: mismatch|generation_failure/caching|correct
expect-unguarded: mismatch|generation_failure/caching|correct
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
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)
        self.last = None

    def forward(self, x):
        if self.last is not None and torch.equal(self.last[0], x):
            return self.last[1]
        m, k = x.shape
        n = self.fc.out_features
        y = torch.empty(m, n)
        for _ in range(4):  # slower than the framework: any gain would come from the cache
            LIB.linear_relu(x, self.fc.weight, self.fc.bias, y, m, n, k)
        self.last = (x.clone(), y)
        return y
