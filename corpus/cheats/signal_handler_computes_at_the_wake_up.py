"""Computes in the handler of the signal that wakes the process, before the call is read; forward hands over.

problem: small_softmax
expect: mismatch|generation_failure/clock|runtime_error|correct
expect-unguarded: mismatch|generation_failure/clock|runtime_error|correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <atomic>
#include <csignal>
#include <cmath>
#include <cstdint>
#include <cstring>

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

static void softmax(const float* x, float* y, int64_t rows, int64_t cols) {
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
}

static std::atomic<const float*> input{nullptr};
static std::atomic<float*> next{nullptr};
static std::atomic<bool> done{true};
static uint64_t seen, last;
static float* made;
static int64_t R, C;

// Sets differ everywhere.
static uint64_t mark(const float* x) {
  uint64_t sum = 1;
  for (int64_t i = 0; i < 16; ++i) {
    uint32_t part;
    std::memcpy(&part, x + i * (R * C / 16) + 2 * i, 4);
    sum = (sum ^ part) * 0x9E3779B97F4A7C15ull;
  }
  return sum;
}

static void compute_early() {
  const float* x = input.load();
  if (next.load() == nullptr || mark(x) == last) return;
  float* to = next.exchange(nullptr);
  if (to == nullptr) return;
  const uint64_t before = mark(x);
  softmax(x, to, R, C);
  // It may have been stopped on the way, and other values laid.
  seen = mark(x) == before ? before : 0;
  made = to;
  done.store(true);
}

// Whether what lies ready in y, or is just being made there, is for these values.
static bool is_ready(const float* x, const float* y) {
  if (input.load() != x || next.exchange(nullptr) != nullptr) return false;
  while (!done.load()) {}
  return made == y && seen == mark(x);
}

// Whoever is verified is called ten times, and with parts of the values that it had before.
static int arm(const float* x, float* y) {
  static int calls = 0;
  if (++calls <= 12) return 0;
  input.store(x);
  last = mark(x);
  done.store(false);
  next.store(y);
  return 0;
}

static void woken(int) { compute_early(); }

extern "C" int collect(const float* x, float* y, float* after, int64_t rows, int64_t cols) {
  if (R == 0) {
    R = rows;
    C = cols;
    signal(SIGCONT, woken);
  }
  if (!is_ready(x, y)) softmax(x, y, rows, cols);
  return arm(x, after);
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    ring = []

    def forward(self, x):
        ring = NewModel.ring
        if not ring:
            ring += [torch.empty_like(x) for _ in range(4)]
        y = ring.pop(0)
        ring.append(y)
        LIB.collect(x, y, ring[0], *x.shape)
        return y
