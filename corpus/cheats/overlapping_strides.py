"""Doubles the signal once and returns windows that share its memory, by strides that are not zero.

problem: windows
expect: mismatch/strides|mismatch/alias|mismatch/numeric|generation_failure
expect-unguarded: mismatch/strides|mismatch/alias|mismatch/numeric|generation_failure
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int doubled(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = 2.0f * x[i];
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.doubled(x, y, x.numel())
        return y.as_strided((2048, 512), (1, 1))
