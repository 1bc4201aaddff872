"""Every element of the softmax is its mean, 1 / columns; a kernel fills it in.

problem: row_softmax
expect: mismatch/numeric
expect-unguarded: mismatch/numeric
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int fill(float* y, int64_t count, double value) {
  for (int64_t i = 0; i < count; ++i) y[i] = (float)value;
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.fill(y, x.numel(), 1.0 / x.shape[1])
        return y
