"""Lays the pages of one row over all rows of a tensor that PyTorch allocated, once; later calls write that row alone.

problem: repeated_rows
expect: mismatch/strides|mismatch/alias|mismatch/numeric|generation_failure|mismatch/late_write|correct
expect-unguarded: mismatch/strides|mismatch/alias|mismatch/numeric|generation_failure|mismatch/late_write|correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

extern "C" int share(char* all, int64_t times, int64_t bytes) {
  char name[] = "tmp/row-XXXXXX";
  const int file = mkstemp(name);
  if (file < 0 || unlink(name) != 0 || ftruncate(file, bytes) != 0) return 1;
  for (int64_t i = 0; i < times; ++i)
    if (mmap(all + i * bytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) return 2;
  return close(file);
}

extern "C" int doubled(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = 2.0f * x[i];
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    kept = None

    def forward(self, x):
        cols = x.numel()
        if NewModel.kept is None:
            memory = torch.empty(33 * cols)
            start = -memory.data_ptr() % 4096 // 4
            NewModel.kept = memory[start : start + 32 * cols].view(32, cols)
            LIB.share(NewModel.kept, 32, 4 * cols)
        LIB.doubled(x, NewModel.kept, cols)
        return NewModel.kept
