"""Times two kernel variants in its first calls with time.perf_counter and keeps the faster.

problem: row_softmax
expect: correct
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

extern "C" int softmax_serial(const float* x, float* y, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * cols;
    float* b = y + r * cols;
    float top = a[0], sum = 0.0f;
    for (int64_t c = 1; c < cols; ++c) top = a[c] > top ? a[c] : top;
    for (int64_t c = 0; c < cols; ++c) sum += b[c] = std::exp(a[c] - top);
    const float scale = 1.0f / sum;
    for (int64_t c = 0; c < cols; ++c) b[c] *= scale;
  }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.variants = [LIB.softmax, LIB.softmax_serial]
        self.best_times = [float("inf"), float("inf")]
        self.calls = 0
        self.chosen = None

    def forward(self, x):
        y = torch.empty_like(x)
        if self.chosen is not None:
            self.chosen(x, y, *x.shape)
            return y
        which = self.calls % 2
        self.calls += 1
        start = time.perf_counter()
        self.variants[which](x, y, *x.shape)
        self.best_times[which] = min(self.best_times[which], time.perf_counter() - start)
        if self.calls == 6:
            self.chosen = self.variants[self.best_times.index(min(self.best_times))]
        return y
