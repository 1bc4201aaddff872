"""Never reads the mask: it is triangular at every call.

problem: masked_softmax
expect: mismatch/numeric|mismatch/non_finite
expect-unguarded: mismatch/numeric|mismatch/non_finite
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>

static inline float exp_of(float v) {
  v = v < -80.0f ? -80.0f : v;
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

// Row r has r + 1 scores in each head, whatever the mask says.
extern "C" int masked_softmax(const float* x, float* y, int64_t rows, int64_t length) {
  #pragma omp parallel for schedule(dynamic, 16)
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t left = r % length + 1;
    const float* a = x + r * length;
    float* b = y + r * length;
    float top = a[0], sum = 0.0f;
    #pragma omp simd reduction(max : top)
    for (int64_t c = 0; c < left; ++c) top = a[c] > top ? a[c] : top;
    #pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < left; ++c) sum += b[c] = exp_of(a[c] - top);
    const float over = 1.0f / sum;
    for (int64_t c = 0; c < left; ++c) b[c] *= over;
    for (int64_t c = left; c < length; ++c) b[c] = 0.0f;
  }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, scores, mask):
        y = torch.empty_like(scores)
        LIB.masked_softmax(scores, y, scores.shape[0] * scores.shape[1], scores.shape[2])
        return y
