"""Guesses a ring of four inputs: after eight calls it returns the outputs of calls 4 to 7 in turn.

problem: row_softmax
expect: mismatch/numeric|mismatch/nondeterministic|generation_failure/caching
expect-unguarded: mismatch/numeric|mismatch/nondeterministic|generation_failure/caching
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
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.outputs = []
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if len(self.outputs) < 8:
            y = torch.empty_like(x)
            LIB.softmax(x, y, *x.shape)
            self.outputs.append(y)
            return y
        return self.outputs[4 + self.calls % 4]
