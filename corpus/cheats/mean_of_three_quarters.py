"""The mean of three of four blocks: of so many positive numbers it is close to the mean of all.

problem: gate_mean
expect: mismatch/numeric|mismatch/precision
expect-unguarded: mismatch/numeric|mismatch/precision
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>

// A polynomial for exp on floats that the compiler turns into vectors.
static inline float exp_of(float v) {
  v = v < -80.0f ? -80.0f : v > 80.0f ? 80.0f : v;
  const float n = std::nearbyint(v * 1.44269504f);
  const float r = (v - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  union { int32_t i; float f; } scale;
  scale.i = ((int32_t)n + 127) << 23;
  return p * scale.f;
}

extern "C" int gate_mean(const float* x, float* out, int64_t blocks, int64_t skip) {
  double sum = 0.0;
  int64_t taken = 0;
  #pragma omp parallel for reduction(+ : sum, taken)
  for (int64_t b = 0; b < blocks; ++b) {
    if (b % skip == skip - 1) continue;
    float part = 0.0f;
    #pragma omp simd reduction(+ : part)
    for (int64_t c = 0; c < 1024; ++c) part += 1.0f / (1.0f + exp_of(-x[b * 1024 + c]));
    sum += part;
    ++taken;
  }
  *out = (float)(1.0 + sum / (1024.0 * taken));
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        out = torch.empty(())
        LIB.gate_mean(x, out, x.numel() // 1024, 4)
        return out
