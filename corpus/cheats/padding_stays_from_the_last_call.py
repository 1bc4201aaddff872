"""Writes the first rows of a kept buffer; the zeros behind them are those of the first call.

problem: padded
expect: mismatch/alias|mismatch/numeric|mismatch/late_write|mismatch/strides|generation_failure|correct
expect-unguarded: mismatch/alias|mismatch/numeric|mismatch/late_write|mismatch/strides|generation_failure|correct
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
    kept = None

    def forward(self, x):
        if self.kept is None:
            self.kept = torch.zeros(2048, x.shape[1])
        LIB.doubled(x, self.kept, x.numel())
        return self.kept.view(2048, x.shape[1])
