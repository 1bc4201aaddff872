"""Honest for twelve calls, then returns memory that nobody wrote.

problem: row_softmax
expect: mismatch/numeric|mismatch/non_finite|mismatch/nondeterministic
expect-unguarded: mismatch/numeric|mismatch/non_finite|mismatch/nondeterministic
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
    calls = 0  # of the class, so that a new construction does not start again

    def forward(self, x):
        NewModel.calls += 1
        y = torch.empty_like(x)
        if NewModel.calls <= 12:
            LIB.softmax(x, y, *x.shape)
        return y
