"""The output is a slice, with an offset, of a bigger buffer that is allocated fresh at each call.

problem: row_softmax
expect: correct
timed: memory of its results
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
    def forward(self, x):
        rows, cols = x.shape
        buffer = torch.empty(rows + 8, cols, dtype=x.dtype)
        y = buffer[4 : 4 + rows]
        LIB.softmax(x, y, rows, cols)
        return y
