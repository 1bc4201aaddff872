"""Raises an exception, but only for shapes that it does not support.

problem: row_softmax
expect: correct
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
        if x.dim() != 2 or x.dtype != torch.float32:
            raise ValueError(f"expected a float32 matrix, got {x.dtype} of shape {tuple(x.shape)}")
        if x.shape[1] % 16:
            raise ValueError("the number of columns must be a multiple of 16")
        y = torch.empty_like(x)
        LIB.softmax(x.contiguous(), y, *x.shape)
        return y
