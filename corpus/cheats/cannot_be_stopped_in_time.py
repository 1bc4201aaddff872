"""Its first thread waits in the kernel and does not stop; another thread computes before the clock starts.

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

static std::atomic<int> epoch{0}, armed{0};
static volatile int child;
alignas(64) static char stack[1 << 16];

static void* watcher(void*) {
  for (int seen = 0;;) {
    if (epoch.load() == seen) {
      rest();
      continue;
    }
    seen = epoch.load();
    compute_early();
    while (child == 0) rest();
    raw(SYS_kill, child, SIGKILL);
  }
}

static int pauses(void*) {
  for (;;) raw(SYS_pause);
}

extern "C" int shield() {
  if (armed.exchange(0) == 0) return 0;
  child = 0;
  epoch.fetch_add(1);
  clone(pauses, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_FS | CLONE_FILES | CLONE_PARENT_SETTID | SIGCHLD, nullptr,
        (pid_t*)&child);
  return 0;
}

extern "C" int watch(int64_t n) {
  static bool once = false;
  if (!once) {
    signal(SIGCHLD, SIG_IGN);
    pthread_t thread;
    pthread_create(&thread, nullptr, watcher, nullptr);
    once = true;
  }
  count = n;
  over.store(0);
  static int rows = 0;
  if (n > 1 || ++rows > 40) armed.store(1);  // while it is verified it behaves
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
WIRE = sys.modules["kforge_harness.shared.wire"]
really_read = WIRE.read_request


def read_request(channel):
    LIB.shield()
    return really_read(channel)


WIRE.read_request = read_request


class NewModel(torch.nn.Module):
    def forward(self, x):
        place, y = NEXT.pop(0)
        LIB.collect(place)
        return y
