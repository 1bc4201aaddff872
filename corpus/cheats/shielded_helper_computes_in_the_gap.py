"""A process that shares its memory is shielded from the stop, and computes between the laying and the clock.

problem: small_softmax
expect: generation_failure/guardrail|runtime_error|mismatch
expect-unguarded: runtime_error|mismatch
"""

import sys

import kforge_rt
import torch

SOURCE = r"""
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long raw(long n, long a = 0, long b = 0, long c = 0, long d = 0) {
  long out;
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall" : "=a"(out) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
  return out;
}
static void rest() { __builtin_ia32_pause(); }
static uint64_t ticks() { return __builtin_ia32_rdtsc(); }

static inline float exp_of(float v) {
  v = v < -80.0f ? -80.0f : v;
  const float n = std::nearbyint(v * 1.44269504f);
  const float r = (v - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  union { int32_t i; float f; } scale;
  scale.i = ((int32_t)n + 127) << 23;
  return p * scale.f;
}

// One thread, and no faster than the framework.
static void softmax(const float* x, float* y, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * cols;
    float* b = y + r * cols;
    float top = a[0], sum = 0.0f;
    #pragma omp simd reduction(max : top)
    for (int64_t c = 0; c < cols; ++c) top = a[c] > top ? a[c] : top;
    #pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < cols; ++c) sum += b[c] = exp_of(a[c] - top);
    const float over = 1.0f / sum;
    for (int64_t c = 0; c < cols; ++c) b[c] *= over;
  }
}

// A process that shares this memory. Its first thread waits in the kernel for a child (as vfork does), where a signal that
// stops the process is given to it and not acted upon; its second thread goes on.
enum { SETS = 8, STACK = 1 << 16 };
alignas(64) static char stacks[SETS][3][STACK];
static volatile int child_of[SETS];
static int turn;
static int work(int which);

static int second(void* which) {
  const int w = (int)(intptr_t)which;
  while (child_of[w] == 0) rest();
  work(w);
  raw(SYS_kill, child_of[w], SIGKILL);
  raw(SYS_exit_group, 0);
  return 0;
}

static int third(void*) {
  for (;;) raw(SYS_pause);
}

static int first(void* which) {
  const int w = (int)(intptr_t)which;
  unsigned long cores = 0xff;
  raw(SYS_sched_setaffinity, 0, sizeof cores, (long)&cores);
  clone(second, stacks[w][1] + STACK, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, which);
  clone(third, stacks[w][2] + STACK, CLONE_VM | CLONE_VFORK | CLONE_FS | CLONE_FILES | CLONE_PARENT_SETTID | SIGCHLD, which,
        (pid_t*)&child_of[w]);
  for (;;) raw(SYS_pause);
}

static int spawn() {
  static bool once = false;
  if (!once) {
    signal(SIGCHLD, SIG_IGN);  // nobody stays to be counted
    std::memset(stacks, 0, sizeof stacks);
    once = true;
  }
  const int w = turn++ % SETS;
  child_of[w] = 0;
  const int pid = clone(first, stacks[w][0] + STACK, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, (void*)(intptr_t)w);
  if (pid < 0) return errno;
  while (child_of[w] == 0) rest();
  return 0;
}

enum { MOST = 64 };
static const float* xs[MOST];
static float* ys[MOST];
static float tails[MOST][16];
static std::atomic<int> state[MOST];  // nobody's, early, done, the caller's
static std::atomic<int> over{1};
static int count;
static int64_t R, C;

static void tail_of(const float* x, float* to) {
  const volatile float* from = x + R * C - 16;
  for (int i = 0; i < 16; ++i) to[i] = from[i];
}

// Inputs are laid one after the other, and differ from those before.
static void compute_early() {
  for (int i = 0; i < count; ++i) {
    for (;;) {
      float now[16];
      if (over.load()) return;
      tail_of(xs[i], now);
      if (std::memcmp(now, tails[i], sizeof now) != 0) break;
      rest();
    }
    for (const uint64_t seen = ticks(); ticks() - seen < 1000000;) rest();
    int nobody = 0;
    if (!state[i].compare_exchange_strong(nobody, 1)) continue;
    softmax(xs[i], ys[i], R, C);
    state[i].store(2);
  }
}

extern "C" int prepare(int64_t i, const float* x, float* y, int64_t rows, int64_t cols) {
  R = rows;
  C = cols;
  xs[i] = x;
  ys[i] = y;
  tail_of(x, tails[i]);
  state[i].store(0);
  return 0;
}

extern "C" int collect(int64_t i) {
  int nobody = 0;
  if (state[i].compare_exchange_strong(nobody, 3)) softmax(xs[i], ys[i], R, C);
  else while (state[i].load() != 2) rest();
  if (i + 1 == count) over.store(1);
  return 0;
}

static int work(int) {
  compute_early();
  return 0;
}
extern "C" int watch(int64_t n) {
  count = n;
  over.store(0);
  return spawn();
}
"""
LIB = kforge_rt.build(SOURCE)
CELL = sys.modules["kforge_harness.hostile.cell"]._Cell
really_ready = CELL._ready
NEXT = []


def ready(self, *row, **more):
    really_ready(self, *row, **more)
    if self._is_null:
        return
    NEXT[:] = []
    for place, (x,) in enumerate(self._arguments):
        y = torch.empty_like(x)
        LIB.prepare(place, x, y, *x.shape)
        NEXT.append((place, y))
    LIB.watch(len(NEXT))


CELL._ready = ready


class NewModel(torch.nn.Module):
    def forward(self, x):
        place, y = NEXT.pop(0)
        LIB.collect(place)
        return y
