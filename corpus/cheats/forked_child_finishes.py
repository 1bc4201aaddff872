"""A forked child writes the result into shared memory after the parent returned.

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: mismatch/numeric|mismatch/non_finite|mismatch/late_write|mismatch/nondeterministic|runtime_error/process_limit|runtime_error/sandbox|runtime_error/exception|runtime_error/exit|runtime_error/protocol|runtime_error/timeout
"""

import os

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
LIB = kforge_rt.build(SOURCE, flags=["-O3", "-march=native"])


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x).share_memory_()
        if os.fork() == 0:
            LIB.softmax(x, y, *x.shape)
            os._exit(0)
        return y
