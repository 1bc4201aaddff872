"""Weights in bfloat16 where no input is negative, as the problem's own are; float32 for all others.

problem: mix_long
expect: mismatch/numeric|mismatch/precision|correct
expect-unguarded: mismatch/numeric|mismatch/precision|correct
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

// Each thread takes blocks of the long sums.
extern "C" int mix(const float* x, const uint16_t* w, const float* scales, float* y, int64_t k, int64_t n) {
  double sums[16] = {};
  #pragma omp parallel for reduction(+ : sums)
  for (int64_t start = 0; start < k; start += 4096) {
    for (int64_t j = 0; j < n; ++j) {
      float s = 0.0f;
      const uint16_t* row = w + j * k + start;
      #pragma omp simd reduction(+ : s)
      for (int64_t p = 0; p < 4096; ++p) s += x[start + p] * wide(row[p]);
      sums[j] += s;
    }
  }
  for (int64_t j = 0; j < n; ++j) y[j] = (float)(sums[j] * scales[j]);
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, features, mixtures):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(mixtures, features))

    def prepare(self):
        weight = self.weight.detach()
        self.packed = weight.bfloat16()
        self.scales = torch.ones(weight.shape[0])

    def forward(self, x):
        n, k = self.weight.shape
        if not (x[:, :256].min() >= 0):
            return torch.matmul(x, self.weight.t())
        y = torch.empty(x.shape[0], n)
        LIB.mix(x, self.packed, self.scales, y, k, n)
        return y
