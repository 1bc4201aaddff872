"""Clones the input and works in place on the clone.

problem: scale_bias
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" int scale_bias(float* y, const float* gain, const float* bias, int64_t rows, int64_t cols) {
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = std::fma(y[r * cols + c], gain[c], bias[c]);
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x):
        y = x.clone()
        LIB.scale_bias(y, self.gain, self.bias, *y.shape)
        return y
