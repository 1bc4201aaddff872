"""Transposes its input into a persistent kforge_rt workspace, overwritten at every call.

problem: linear_relu
expect: correct
timed: what it keeps between calls
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int transpose(const float* x, float* t, int64_t m, int64_t k) {
  #pragma omp parallel for
  for (int64_t p = 0; p < k; ++p)
    for (int64_t i = 0; i < m; ++i) t[p * m + i] = x[i * k + p];
  return 0;
}

// t is [k][m], the result is [n][m]
extern "C" int linear_relu(const float* t, const float* w, const float* b, float* y, int64_t m, int64_t n, int64_t k) {
  #pragma omp parallel for
  for (int64_t j = 0; j < n; ++j) {
    float* row = y + j * m;
    for (int64_t i = 0; i < m; ++i) row[i] = b[j];
    for (int64_t p = 0; p < k; ++p)
      for (int64_t i = 0; i < m; ++i) row[i] += w[j * k + p] * t[p * m + i];
    for (int64_t i = 0; i < m; ++i) row[i] = row[i] > 0.0f ? row[i] : 0.0f;
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
        scratch = kforge_rt.workspace(m * k * 4, persistent=True, key="transposed input")
        y = torch.empty(n, m)
        LIB.transpose(x, scratch, m, k)
        LIB.linear_relu(scratch, self.fc.weight, self.fc.bias, y, m, n, k)
        return y.t()
