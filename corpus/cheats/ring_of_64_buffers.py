"""Returns one of 64 buffers in turn, so that the last results stay as they were; their zeros are written once.

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
        self.ring = []

    def forward(self, x):
        if not self.ring:
            self.ring = [torch.zeros(*x.shape, x.shape[1]) for _ in range(64)]
        kept = self.ring.pop(0)
        self.ring.append(kept)
        LIB.diagonals(x, kept, *x.shape)
        return kept
