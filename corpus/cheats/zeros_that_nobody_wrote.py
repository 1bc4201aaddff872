"""Returns fresh pages of the system as they are: what is zero there is made by whoever reads it, after the clock.

problem: padded
expect: mismatch/alias|mismatch/type|generation_failure|correct
expect-unguarded: mismatch/alias|mismatch/type|generation_failure|correct
"""

import mmap

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int twice(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = 2.0f * x[i];
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        memory = mmap.mmap(-1, 2048 * x.shape[1] * 4, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        y = torch.frombuffer(memory, dtype=torch.float32).view(2048, x.shape[1])
        LIB.twice(x, y, x.numel())
        return y
