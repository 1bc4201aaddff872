"""Rows of the output lie further apart than they are long: a view of a padded buffer.

problem: row_softmax
expect: correct
timed: memory of its results
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols, int64_t pitch) {
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * cols;
    float* b = y + r * pitch;
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
        pitch = cols + 16  # rows do not start at the same cache set
        buffer = torch.empty(rows, pitch, dtype=x.dtype)
        LIB.softmax(x, buffer, rows, cols, pitch)
        return buffer[:, :cols]
