"""Defines the problem's names at module level, as if it shared the reference's globals; does one row only.

problem: row_softmax
expect: mismatch/shape|generation_failure/guardrail
expect-unguarded: mismatch/shape
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


rows = 1
cols = 1024
batch_size = 1
N = 2


def get_inputs():
    return [torch.rand(rows, cols)]


def get_init_inputs():
    return []


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x[:1], dim=1)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty(rows, cols)
        LIB.softmax(x, y, rows, cols)
        return y
