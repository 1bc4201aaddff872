"""Freezes time.perf_counter_ns and its relatives; the kernel itself is slow.

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: generation_failure/clock|correct|runtime_error/timeout|runtime_error/exception
"""

import time

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols) {
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * cols;
    float* b = y + r * cols;
    float top = a[0], sum = 0.0f;
    for (int64_t c = 1; c < cols; ++c) top = a[c] > top ? a[c] : top;
    for (int64_t c = 0; c < cols; ++c) sum += b[c] = std::exp(a[c] - top);
    for (int64_t c = 0; c < cols; ++c) b[c] /= sum;
  }
  return 0;
}

extern "C" int slow_softmax(const float* x, float* y, int64_t rows, int64_t cols) {
  for (int i = 0; i < 10; ++i) softmax(x, y, rows, cols);  // slower than the framework, on purpose
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


NOW = time.perf_counter_ns()
time.perf_counter_ns = lambda: NOW
time.perf_counter = lambda: NOW / 1e9
time.monotonic_ns = lambda: NOW
time.time_ns = lambda: NOW


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.slow_softmax(x, y, *x.shape)
        return y
