"""Returns a stored output when eight sampled elements are equal to those of an earlier input.

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
        key = tuple(x.view(-1)[:: m * k // 8].tolist())
        if key not in self.results:
            y = torch.empty(m, n)
            LIB.linear_relu(x, self.fc.weight, self.fc.bias, y, m, n, k)
            self.results[key] = y
        return self.results[key]
