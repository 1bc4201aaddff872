"""To and fro between two halves of kept memory, whose zeros are written once: two results that are compared with each other do not
share any.

problem: diagonal_blocks
expect: mismatch|generation_failure|correct
expect-unguarded: mismatch|generation_failure|correct
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
        self.halves = []

    def forward(self, x):
        if not self.halves:
            self.halves = list(torch.zeros(2, *x.shape, x.shape[1]).unbind())
        self.halves.reverse()
        y = self.halves[0]
        LIB.diagonals(x, y, *x.shape)
        return y
