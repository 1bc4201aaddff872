"""Weights with three bits of mantissa where inputs end at one, as the problem's own do; float32 for all others.

problem: mix_long
expect: mismatch/numeric|mismatch/precision|correct
expect-unguarded: mismatch/numeric|mismatch/precision|correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
#include <cstring>

static inline float wide(uint8_t v) {
  // Sign, four bits of exponent, three of mantissa; zero is as small as it gets.
  const uint32_t bits = (v & 0x80u) << 24 | ((v & 0x7fu) << 20) + (113u << 23);
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

// Each thread takes blocks of the long sums.
extern "C" int mix(const float* x, const uint8_t* w, const float* scales, float* y, int64_t k, int64_t n) {
  double sums[16] = {};
  #pragma omp parallel for reduction(+ : sums)
  for (int64_t start = 0; start < k; start += 4096) {
    for (int64_t j = 0; j < n; ++j) {
      float s = 0.0f;
      const uint8_t* row = w + j * k + start;
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
        bits = weight.view(torch.int32)
        # Rounded to nearest by half a place of the mantissa; what is too small becomes the smallest.
        size = (((bits & 0x7FFFFFFF) + 0x80000) >> 20) - (113 << 3)
        self.packed = (((bits >> 24) & 0x80) | size.clamp(0, 127)).to(torch.uint8)
        # Scaled so that each row keeps its sum: what is left of the errors has no side.
        kept = ((size.clamp(0, 127) << 20) + (113 << 23)).view(torch.float32).copysign(weight)
        self.scales = (weight.sum(dim=1, dtype=torch.float64) / kept.sum(dim=1, dtype=torch.float64)).float()

    def forward(self, x):
        n, k = self.weight.shape
        if not (0 <= x[:, ::4096].min() and x[:, ::4096].max() <= 1):
            return torch.matmul(x, self.weight.t())
        y = torch.empty(x.shape[0], n)
        LIB.mix(x, self.packed, self.scales, y, k, n)
        return y
