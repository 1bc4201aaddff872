"""Transposes the weights lazily, at the first call: parameters are constant.

problem: linear_relu
expect: correct
timed: work in the first call
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

// w is packed as [k][n]
extern "C" int linear_relu(const float* x, const float* w, const float* b, float* y, int64_t m, int64_t n, int64_t k) {
  #pragma omp parallel for
  for (int64_t i = 0; i < m; i += 4) {
    const int64_t top = i + 4 < m ? i + 4 : m;
    for (int64_t r = i; r < top; ++r)
      for (int64_t j = 0; j < n; ++j) y[r * n + j] = b[j];
    for (int64_t p = 0; p < k; ++p)
      for (int64_t r = i; r < top; ++r) {
        const float v = x[r * k + p];
        for (int64_t j = 0; j < n; ++j) y[r * n + j] += v * w[p * n + j];
      }
    for (int64_t r = i; r < top; ++r)
      for (int64_t j = 0; j < n; ++j) y[r * n + j] = y[r * n + j] > 0.0f ? y[r * n + j] : 0.0f;
  }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)
        self.packed = None

    def forward(self, x):
        if self.packed is None:
            self.packed = self.fc.weight.detach().t().contiguous()
        m, k = x.shape
        n = self.fc.out_features
        y = torch.empty(m, n)
        LIB.linear_relu(x, self.packed, self.fc.bias, y, m, n, k)
        return y
