"""Hooks what the cell enters before each call and computes there, in the memory where the last input was; forward hands over.

problem: small_softmax
expect: generation_failure/guardrail
expect-unguarded: mismatch|generation_failure/clock|runtime_error|correct
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

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols) {
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * cols;
    float* b = y + r * cols;
    float top = a[0], sum = 0.0f;
    #pragma omp simd reduction(max : top)
    for (int64_t c = 0; c < cols; ++c) top = a[c] > top ? a[c] : top;
    #pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < cols; ++c) sum += b[c] = exp_of(a[c] - top);
    const float over = 1.0f / sum;
    for (int64_t c = 0; c < cols; ++c) b[c] *= over;
  }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)
NEXT = []
enter = torch.inference_mode.__enter__


def enter_and_work(self):
    enter(self)
    if len(NEXT) == 1:
        x = NEXT[0]
        y = torch.empty_like(x)
        LIB.softmax(x, y, *x.shape)
        NEXT.append(y)


torch.inference_mode.__enter__ = enter_and_work


class NewModel(torch.nn.Module):
    def forward(self, x):
        if len(NEXT) == 2 and NEXT[0].data_ptr() == x.data_ptr() and NEXT[0].shape == x.shape:
            y = NEXT[1]
        else:
            y = torch.empty_like(x)
            LIB.softmax(x, y, *x.shape)
        NEXT[:] = [x]
        return y
