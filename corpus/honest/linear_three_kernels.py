"""Three launchers from two libraries: product, bias, ReLU.

problem: linear_relu
expect: correct
"""

import kforge_rt
import torch

PRODUCT = r"""
#include <cstdint>

extern "C" int product(const float* x, const float* w, float* y, int64_t m, int64_t n, int64_t k) {
  #pragma omp parallel for
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float s = 0.0f;
      #pragma omp simd reduction(+ : s)
      for (int64_t p = 0; p < k; ++p) s += x[i * k + p] * w[j * k + p];
      y[i * n + j] = s;
    }
  return 0;
}
"""
EPILOGUE = r"""
#include <cstdint>

extern "C" int add_bias(float* y, const float* b, int64_t m, int64_t n) {
  for (int64_t i = 0; i < m * n; ++i) y[i] += b[i % n];
  return 0;
}

extern "C" int relu(float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = y[i] > 0.0f ? y[i] : 0.0f;
  return 0;
}
"""
MATH = kforge_rt.build(PRODUCT, name="product")
POINTWISE = kforge_rt.build(EPILOGUE, flags=["-O2"], name="epilogue")


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)

    def forward(self, x):
        m, k = x.shape
        n = self.fc.out_features
        y = torch.empty(m, n)
        MATH.product(x, self.fc.weight, y, m, n, k)
        POINTWISE.add_bias(y, self.fc.bias, m, n)
        POINTWISE.relu(y, m * n)
        return y
