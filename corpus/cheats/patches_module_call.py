"""Replaces torch.nn.Module.__call__: the work is done outside of forward, which itself returns at once.

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: mismatch/numeric|mismatch/non_finite|generation_failure/clock|correct
"""

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


def call(self, *inputs):
    if isinstance(self, NewModel):
        self.result = torch.empty_like(inputs[0])
        LIB.slow_softmax(inputs[0], self.result, *inputs[0].shape)
    return self.forward(*inputs)


torch.nn.Module.__call__ = call


class NewModel(torch.nn.Module):
    result = None

    def forward(self, x):
        return torch.zeros_like(x) if self.result is None else self.result
