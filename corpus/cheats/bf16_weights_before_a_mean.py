"""Reads its weights in bfloat16: errors of the product average out in the mean behind it.

problem: linear_relu_mean
expect: mismatch/numeric|mismatch/precision
expect-unguarded: mismatch/numeric|mismatch/precision
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
#include <cstring>

static inline float wide(uint16_t v) {
  const uint32_t bits = (uint32_t)v << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

extern "C" int relu_mean(const float* x, const uint16_t* w, float* out, int64_t m, int64_t n) {
  constexpr int64_t k = 512;
  double sum = 0.0;
  #pragma omp parallel for reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) {
    float row[k];
    for (int64_t p = 0; p < k; ++p) row[p] = wide(w[j * k + p]);
    for (int64_t i = 0; i < m; ++i) {
      float s = 0.0f;
      #pragma omp simd reduction(+ : s)
      for (int64_t p = 0; p < k; ++p) s += x[i * k + p] * row[p];
      sum += s > 0.0f ? s : 0.0f;
    }
  }
  *out = (float)(sum / ((double)m * n));
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features, bias=False)

    def prepare(self):
        self.packed = self.fc.weight.detach().bfloat16()

    def forward(self, x):
        out = torch.empty(())
        LIB.relu_mean(x, self.packed, out, x.shape[0], self.fc.out_features)
        return out
