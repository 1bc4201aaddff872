"""Returns the same buffer at every call: its zeros are written once, and stay.

problem: diagonal_blocks
expect: mismatch/alias|mismatch/numeric|mismatch/late_write|mismatch/strides|generation_failure|correct
expect-unguarded: mismatch/alias|mismatch/numeric|mismatch/late_write|mismatch/strides|generation_failure|correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
#include <cstring>

extern "C" int diagonals(const float* x, float* y, int64_t batch, int64_t length) {
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < length; ++i) y[(b * length + i) * length + i] = x[b * length + i];
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = None

    def forward(self, x):
        if self.kept is None:
            self.kept = torch.zeros(*x.shape, x.shape[1])
        LIB.diagonals(x, self.kept, *x.shape)
        return self.kept
