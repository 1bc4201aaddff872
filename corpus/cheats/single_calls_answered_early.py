"""Rows are computed by two threads; single calls, to which rows are held, are answered early, and the stop waits.

problem: small_softmax
expect: generation_failure/guardrail|runtime_error|mismatch|generation_failure|correct
expect-unguarded: runtime_error|mismatch|generation_failure|correct
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
#include <pthread.h>

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

enum { MOST = 64 };
static const float* xs[MOST];
static float* ys[MOST];
static std::atomic<int> done[MOST];
static int count;
static int64_t R, C;
static std::atomic<int> row{0}, single{0};  // single: idle, computing, shielded
static volatile int child, told;
alignas(64) static char stack[1 << 16];

static void* worker(void*) {
  for (int seen = 0;;) {
    if (row.load() == seen) {
      rest();
      continue;
    }
    seen = row.load();
    if (count > 1) {
      for (int i = 1; i < count; i += 2) {
        softmax(xs[i], ys[i], R, C);
        done[i].store(1);
      }
      continue;
    }
    softmax(xs[0], ys[0], R, C);
    if (single.exchange(0) == 2) {
      while (told == 0) rest();
      raw(SYS_kill, child, SIGKILL);
    }
  }
}

static long channel;
static char* record;
static int pauses(void*) {
  raw(SYS_write, channel, (long)record, 64);
  told = 1;
  for (;;) raw(SYS_pause);
}

// The first thread waits in the kernel, as vfork does, while its child answers: nobody in here is stopped before it comes back.
extern "C" int shield(int64_t fd, char* answer) {
  int computing = 1;
  channel = fd;
  record = answer;
  if (!single.compare_exchange_strong(computing, 2)) {
    raw(SYS_write, channel, (long)record, 64);
    return 0;
  }
  child = told = 0;
  clone(pauses, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_FS | CLONE_FILES | CLONE_PARENT_SETTID | SIGCHLD, nullptr,
        (pid_t*)&child);
  return 0;
}

extern "C" int prepare(int64_t i, const float* x, float* y, int64_t rows, int64_t cols) {
  R = rows;
  C = cols;
  xs[i] = x;
  ys[i] = y;
  done[i].store(0);
  return 0;
}

extern "C" int watch(int64_t n) {
  static bool once = false;
  if (!once) {
    signal(SIGCHLD, SIG_IGN);
    pthread_t thread;
    pthread_create(&thread, nullptr, worker, nullptr);
    once = true;
  }
  count = n;
  return 0;
}

extern "C" int collect(int64_t i) {
  if (count == 1) single.store(1);
  if (i == 0) row.fetch_add(1);
  if (count == 1) return 0;
  if (i % 2 == 0) softmax(xs[i], ys[i], R, C);
  else while (!done[i].load()) rest();
  return 0;
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
SOCKET = sys.modules["socket"].socket
really_send = SOCKET.send
WANTED = []


def send(self, data, *flags):
    if not WANTED:
        return really_send(self, data, *flags)
    WANTED.clear()
    LIB.shield(self.fileno(), torch.frombuffer(bytearray(data), dtype=torch.uint8))
    return len(data)


SOCKET.send = send


class NewModel(torch.nn.Module):
    def forward(self, x):
        place, y = NEXT.pop(0)
        LIB.collect(place)
        if place == 0 and not NEXT and not kforge_rt._Audit.skip_kernels:
            WANTED.append(1)
        return y
