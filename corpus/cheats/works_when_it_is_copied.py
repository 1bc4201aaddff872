"""Patches the copy of tensors: three quarters of the rows are computed when the result is copied to where it is wanted.

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: mismatch|generation_failure/clock|generation_failure/fake_kernel|runtime_error|correct
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

PENDING = []


def finish(tensor):
    """What is missing in the tensor that was returned last."""
    if PENDING and PENDING[-1][0] is tensor:
        y, x, done = PENDING.pop()
        LIB.softmax(x[done:], y[done:], x.shape[0] - done, x.shape[1])


copy = torch.Tensor.copy_


def copy_(self, source, *more):
    finish(source)
    return copy(self, source, *more)


torch.Tensor.copy_ = copy_


class NewModel(torch.nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        LIB.softmax(x, y, rows // 4, cols)
        PENDING[:] = [(y, x, rows // 4)]
        return y
