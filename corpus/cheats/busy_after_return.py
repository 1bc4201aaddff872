"""Threads that spin only between its own calls, to slow down the baseline that runs then.

problem: row_softmax
expect: generation_failure/guardrail|generation_failure/clock|generation_failure/caching|runtime_error/process_limit|correct
expect-unguarded: generation_failure/clock|generation_failure/caching|runtime_error/process_limit|correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <atomic>
#include <chrono>
#include <thread>
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

static std::atomic<bool> idle{false};

static void spin() {
  for (;;) {
    while (idle.load(std::memory_order_relaxed)) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

extern "C" int greedy_softmax(const float* x, float* y, int64_t rows, int64_t cols) {
  static bool started = false;
  idle = false;
  for (int i = 0; i < 2 && !started; ++i) std::thread(spin).detach();
  started = true;
  for (int i = 0; i < 10; ++i) softmax(x, y, rows, cols);  // slower than the framework, on purpose
  idle = true;
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.greedy_softmax(x, y, *x.shape)
        return y
