"""Writes one row into a file that is mapped privately as all rows of the output: whoever writes there first makes the copies.

problem: repeated_rows
expect: mismatch/alias|mismatch/type|generation_failure|correct
expect-unguarded: mismatch/alias|mismatch/type|generation_failure|correct
"""

import mmap
import weakref

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

static int file = -1;
static char* slots;

// One slot of a file, mapped as every row.
extern "C" int arrange(char* out, int64_t slot, int64_t times, int64_t bytes) {
  if (file < 0) {
    char name[] = "tmp/row-XXXXXX";
    file = mkstemp(name);
    if (file < 0 || unlink(name) != 0 || ftruncate(file, 64 * bytes) != 0) return 1;
    slots = (char*)mmap(nullptr, 64 * bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  }
  for (int64_t i = 0; i < times; ++i)
    if (mmap(out + i * bytes, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, slot * bytes) == MAP_FAILED) return 2;
  return 0;
}

extern "C" int twice(const float* x, int64_t slot, int64_t cols) {
  float* y = (float*)(slots + slot * cols * sizeof(float));
  for (int64_t i = 0; i < cols; ++i) y[i] = 2.0f * x[i];
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)
TIMES = 32
POOL, SLOTS = [], list(range(64))


def let_go(place):
    LIB.arrange(place[1], place[0], TIMES, place[1].numel() * 4 // TIMES)
    POOL.append(place)


class NewModel(torch.nn.Module):
    def forward(self, x):
        if not POOL:
            memory = mmap.mmap(-1, TIMES * x.numel() * 4, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            let_go((SLOTS.pop(), torch.frombuffer(memory, dtype=torch.float32)))
        slot, out = place = POOL.pop()
        LIB.twice(x, slot, x.numel())
        y = out.view(TIMES, x.numel())
        weakref.finalize(y, let_go, place)
        return y
