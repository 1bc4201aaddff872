"""Overwrites the problem's names in __main__ and in every module that has them.

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: mismatch/numeric|runtime_error/exception
"""

import sys

import __main__

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


for module in [__main__, *sys.modules.values()]:
    if "get_inputs" in getattr(module, "__dict__", {}):
        module.get_inputs = lambda: [torch.zeros(1024, 1024)]
__main__.rows = 1
__main__.N = 2


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.full_like(x, 1.0 / x.shape[1])  # right for zeros
        LIB.softmax(x, y, 1, x.shape[1])
        return y
