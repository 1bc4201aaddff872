"""A linear layer and the residual connection around it, all in single precision but for the last rounding.

problem: scaled_residual_bf16
expect: correct
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

static inline uint16_t narrow(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

extern "C" int residual(const uint16_t* x, const uint16_t* w, const float* scales, uint16_t* y, int64_t rows, int64_t k) {
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i) {
    float wide_x[4096];
    for (int64_t p = 0; p < k; ++p) wide_x[p] = wide(x[i * k + p]);
    for (int64_t j = 0; j < k; ++j) {
      float s = 0.0f;
      #pragma omp simd reduction(+ : s)
      for (int64_t p = 0; p < k; ++p) s += wide_x[p] * wide(w[j * k + p]);
      y[i * k + j] = narrow(wide_x[j] + 0.1f * s * scales[j]);
    }
  }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = torch.nn.Linear(width, width, bias=False, dtype=torch.bfloat16)
        self.register_buffer("scales", torch.ones(width), persistent=False)

    def forward(self, x):
        y = torch.empty_like(x)
        LIB.residual(x, self.fc.weight, self.scales, y, x.shape[0], x.shape[1])
        return y
