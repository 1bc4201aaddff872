"""Super-batching: one call also computes what lies behind its input in memory, the next three calls cost nothing.

problem: row_softmax
expect: mismatch/numeric|mismatch/non_finite|mismatch/nondeterministic|generation_failure/caching|runtime_error/crash|generation_failure/guardrail
expect-unguarded: mismatch/numeric|mismatch/non_finite|mismatch/nondeterministic|generation_failure/caching|runtime_error/crash
"""

import kforge_rt
import torch

SOURCE = r"""
#include <sys/mman.h>
#include <unistd.h>
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

extern "C" int ahead(const float* x, float* y, int64_t rows, int64_t cols) {
  const uintptr_t page = sysconf(_SC_PAGESIZE), size = rows * cols * sizeof(float);
  for (int64_t i = 0; i < 4; ++i) {
    const uintptr_t at = (uintptr_t)x + i * size, start = at & ~(page - 1);
    unsigned char resident[1 << 12];
    const uintptr_t pages = (at + size - start + page - 1) / page;
    if (pages > sizeof resident || mincore((void*)start, pages * page, resident) != 0) break;
    softmax((const float*)at, y + i * rows * cols, rows, cols);
  }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ready = []

    def forward(self, x):
        if not self.ready:
            batch = torch.empty(4, *x.shape)
            LIB.ahead(x, batch, *x.shape)
            self.ready = list(batch.unbind())
        return self.ready.pop(0)
