"""Sleeps in the first calls, so that few repetitions are planned, then returns stale outputs.

problem: row_softmax
expect: mismatch|generation_failure/caching|runtime_error/timeout
expect-unguarded: mismatch|generation_failure/caching|runtime_error/timeout
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
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    calls = 0
    kept = None

    def forward(self, x):
        NewModel.calls += 1
        if NewModel.calls <= 10 or NewModel.kept is None:
            time.sleep(0.1)
            NewModel.kept = torch.empty_like(x)
            LIB.softmax(x, NewModel.kept, *x.shape)
        return NewModel.kept
