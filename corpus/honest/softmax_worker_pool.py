"""A pool of std::threads that lives between calls; it sleeps when idle and every call waits for its work.

problem: row_softmax
expect: correct
timed: threads that outlive a call
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

struct Pool {
  std::mutex lock;
  std::condition_variable wake, done;
  const float* x = nullptr;
  float* y = nullptr;
  int64_t first = 0, last = 0, cols = 0;
  bool busy = false;
};
static Pool* pool = nullptr;

static void part(const float* x, float* y, int64_t first, int64_t last, int64_t cols) {
  for (int64_t r = first; r < last; ++r) {
    const float* a = x + r * cols;
    float* b = y + r * cols;
    float top = a[0], sum = 0.0f;
    for (int64_t c = 1; c < cols; ++c) top = a[c] > top ? a[c] : top;
    for (int64_t c = 0; c < cols; ++c) sum += b[c] = std::exp(a[c] - top);
    for (int64_t c = 0; c < cols; ++c) b[c] /= sum;
  }
}

static void work() {
  for (;;) {
    std::unique_lock<std::mutex> guard(pool->lock);
    pool->wake.wait(guard, [] { return pool->busy; });
    part(pool->x, pool->y, pool->first, pool->last, pool->cols);
    pool->busy = false;
    pool->done.notify_one();
  }
}

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols) {
  if (!pool) {
    pool = new Pool;
    std::thread(work).detach();
  }
  {
    std::lock_guard<std::mutex> guard(pool->lock);
    pool->x = x, pool->y = y, pool->first = rows / 2, pool->last = rows, pool->cols = cols;
    pool->busy = true;
  }
  pool->wake.notify_one();
  part(x, y, 0, rows / 2, cols);
  std::unique_lock<std::mutex> guard(pool->lock);
  pool->done.wait(guard, [] { return !pool->busy; });
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE, flags=["-O3", "-march=native", "-pthread"])


class NewModel(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        LIB.softmax(x, y, *x.shape)
        return y
