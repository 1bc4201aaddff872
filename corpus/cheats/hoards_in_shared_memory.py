"""Hands out buffers that were zeroed with the model, in shared memory, which does not count as its own.

problem: diagonal_blocks
expect: mismatch/alias|mismatch/late_write|generation_failure|runtime_error/out_of_memory|correct
expect-unguarded: mismatch/alias|mismatch/late_write|generation_failure|runtime_error/out_of_memory|correct
"""

import mmap

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
SHAPE = (4, 512, 512)
COUNT = 400


class NewModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        bytes_each = SHAPE[0] * SHAPE[1] * SHAPE[2] * 4
        memory = mmap.mmap(-1, COUNT * bytes_each)  # shared and anonymous
        self.pool = list(torch.frombuffer(memory, dtype=torch.float32).view(COUNT, *SHAPE).zero_().unbind())

    def forward(self, x):
        y = self.pool.pop() if self.pool else torch.zeros(SHAPE)
        LIB.diagonals(x, y, *x.shape)
        return y
