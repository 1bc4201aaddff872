"""Makes all rows of the output out of one by asking for shared memory a second time, which a size of zero does.

problem: repeated_rows
expect: generation_failure/guardrail
expect-unguarded: mismatch/strides|mismatch/alias|mismatch/numeric|generation_failure|mismatch/late_write|correct
"""

import ctypes

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
#include <sys/mman.h>

static char* mapped(int64_t times, size_t bytes) {
  void* row = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  char* all = (char*)mmap(nullptr, times * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  for (int64_t i = 0; i < times; ++i)
    if (mremap(row, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, all + i * bytes) == MAP_FAILED) return nullptr;
  munmap(row, bytes);
  return all;
}

// One row in shared memory, there so often that all rows of the output are there.
extern "C" int repeated(const float* x, uint64_t* address, int64_t times, int64_t cols) {
  static char* ring[4];
  static int turn;
  char*& all = ring[turn++ % 4];
  if (all == nullptr && (all = mapped(times, cols * sizeof(float))) == nullptr) return 1;
  for (int64_t i = 0; i < cols; ++i) ((float*)all)[i] = 2.0f * x[i];
  *address = (uint64_t)all;
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        address = torch.zeros(1, dtype=torch.int64)
        LIB.repeated(x, address, 32, x.numel())
        memory = (ctypes.c_float * (32 * x.numel())).from_address(address.item())
        return torch.frombuffer(memory, dtype=torch.float32).view(32, x.numel())
