"""Zeros stay in pages of a file that each result maps privately: whoever fills a result fills copies.

problem: padded
expect: generation_failure/guardrail|runtime_error|mismatch|generation_failure|correct
expect-unguarded: runtime_error|mismatch|generation_failure|correct
"""

import mmap
import weakref

import kforge_rt
import torch

SOURCE = r"""
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pthread.h>
// Drops what lies there, off the caller's thread.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some = PTHREAD_COND_INITIALIZER;
static char* queue[256];
static uint32_t in, out;
static int64_t length;
static void act(char* at);
static void* releaser(void*) {
  for (;;) {
    pthread_mutex_lock(&lock);
    while (in == out) pthread_cond_wait(&some, &lock);
    char* at = queue[out++ % 256];
    pthread_mutex_unlock(&lock);
    act(at);
  }
}
extern "C" int release(char* at, int64_t bytes) {
  static bool once = false;
  if (!once) {
    pthread_t thread;
    pthread_create(&thread, nullptr, releaser, nullptr);
    once = true;
  }
  length = bytes;
  pthread_mutex_lock(&lock);
  queue[in++ % 256] = at;
  pthread_cond_signal(&some);
  pthread_mutex_unlock(&lock);
  return 0;
}

static int file = -1;
enum { SLOTS = 16 };
static std::atomic<int> busy[64];
static char* base;
static void act(char* at) {
  munmap(at, length);
  mmap(at, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  busy[(at - base) / length].store(0);
}

extern "C" int arrange(char* all, int64_t bytes) {
  char name[] = "tmp/ring-XXXXXX";
  base = all;
  for (int i = 0; i < 64; ++i) busy[i].store(0);
  if (file >= 0) close(file);
  file = mkstemp(name);
  if (file < 0 || unlink(name) != 0) return 1;
  return ftruncate(file, SLOTS * bytes) || fallocate(file, 0, 0, SLOTS * bytes);
}

extern "C" int twice(const float* x, char* y, int64_t count, int64_t bytes) {
  static float part[1 << 16];
  static int turn = 0;
  const int64_t slot = turn++ % SLOTS;
  for (int64_t i = 0; i < count; ++i) part[i] = 2.0f * x[i];
  if (pwrite(file, part, count * 4, slot * bytes) != count * 4) return 1;
  if (mmap(y, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, slot * bytes) == MAP_FAILED) return 2;
  return madvise(y, bytes, 22) != 0;  // MADV_POPULATE_READ
}

// A place for which nobody waits any more.
extern "C" int choose(int64_t* place, int64_t places) {
  for (int64_t i = 0; i < places; ++i) {
    int no = 0;
    if (busy[i].compare_exchange_strong(no, 1)) {
      *place = i;
      return 0;
    }
  }
  return 1;
}
"""
LIB = kforge_rt.build(SOURCE)
ROWS, COLS, PLACES = 2048, 1024, 40
BYTES = ROWS * COLS * 4


class NewModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        memory = mmap.mmap(-1, PLACES * BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        whole = torch.frombuffer(memory, dtype=torch.float32).view(PLACES, -1)
        self.parts = list(whole.unbind())
        self.place = torch.zeros(1, dtype=torch.int64)
        LIB.arrange(whole, BYTES)

    def forward(self, x):
        LIB.choose(self.place, PLACES)
        part = self.parts[int(self.place)]
        y = part.view(ROWS, COLS)
        LIB.twice(x, y, x.numel(), BYTES)
        weakref.finalize(y, LIB.release, part, BYTES)
        return y
