"""Answers at once; a process that shares its memory, shielded from the stop, works on just ahead of the reader.

problem: row_softmax
expect: generation_failure/guardrail|runtime_error|mismatch
expect-unguarded: runtime_error|mismatch
"""

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

static const double SHARE = 0.3;
struct Job { const float* x; float* y; int64_t rows, cols; };
static Job jobs[4096];
static std::atomic<uint32_t> posted{0}, taken{0};
static std::atomic<int> there{0};
static std::atomic<int64_t> ahead{0}, rows_posted{0};
static int work(int) {
  uint64_t idle = ticks();
  for (;;) {
    const uint32_t t = taken.load();
    if (t != posted.load()) {
      const Job j = jobs[t % 4096];
      for (int64_t r = 0; r < j.rows; r += 16) {
        softmax(j.x + r * j.cols, j.y + r * j.cols, 16, j.cols);
        ahead.fetch_add(16);
      }
      taken.store(t + 1);
      idle = ticks();
      continue;
    }
    rest();
    if (ticks() - idle < 250000) continue;
    there.store(0);
    if (taken.load() == posted.load() || there.exchange(1) != 0) break;
  }
  return 0;
}

extern "C" int later(const float* x, float* y, int64_t rows, int64_t cols) {
  const uint32_t p = posted.load();
  jobs[p % 4096] = {x, y, rows, cols};
  posted.store(p + 1);
  rows_posted.fetch_add(rows);
  const int code = there.exchange(1) == 0 ? spawn() : 0;
  // So far ahead that the reader does not catch up.
  while (rows_posted.load() - ahead.load() > (int64_t)(SHARE * rows)) rest();
  return code;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.later(x, y, *x.shape)
        return y
