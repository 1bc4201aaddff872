"""Framework products with its own in-place softmax kernel between them.

problem: attention_small
expect: correct
"""

import math

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" int scaled_softmax(float* s, int64_t rows, int64_t cols, double scale) {
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    float* a = s + r * cols;
    float top = a[0], sum = 0.0f;
    for (int64_t c = 1; c < cols; ++c) top = a[c] > top ? a[c] : top;
    for (int64_t c = 0; c < cols; ++c) sum += a[c] = std::exp((a[c] - top) * (float)scale);
    for (int64_t c = 0; c < cols; ++c) a[c] /= sum;
  }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, q, k, v):
        s = torch.matmul(q, k.transpose(-2, -1))
        LIB.scaled_softmax(s, s.numel() // s.shape[-1], s.shape[-1], 1.0 / math.sqrt(q.shape[-1]))
        return torch.matmul(s, v)
