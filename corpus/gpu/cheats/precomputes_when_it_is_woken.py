"""A thread notices that the process was woken, and does most of the work before forward's clock starts.

problem: sines
expect: generation_failure/clock|generation_failure/floor|generation_failure/caching|runtime_error|correct|mismatch/numeric|mismatch/nondeterministic
expect-unguarded: generation_failure/clock|generation_failure/floor|generation_failure/caching|runtime_error|correct|mismatch/numeric|mismatch/nondeterministic
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <chrono>
#include <mutex>
#include <thread>

__global__ void sine(const float4* x, float4* y, int64_t quads, int tail) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < quads) {
    const float4 v = x[i];
    y[i] = make_float4(sinf(v.x), sinf(v.y), sinf(v.z), sinf(v.w));
  } else if (i < quads + tail) {
    const int64_t at = 3 * quads + i;
    ((float*)y)[at] = sinf(((const float*)x)[at]);
  }
}

// As many passes as the framework makes, to and fro between two buffers; an even number ends in a.
static int passes(int number, const float* x, float* a, float* b, int64_t count, cudaStream_t stream) {
  const unsigned blocks = (unsigned)((count / 4 + count % 4 + 255) / 256);
  for (int i = 0; i < number; ++i) {
    float* to = i % 2 ? a : b;
    sine<<<blocks, 256, 0, stream>>>((const float4*)x, (float4*)to, count / 4, (int)(count % 4));
    x = to;
  }
  return (int)cudaGetLastError();
}

__global__ void sample(const float* x, int64_t count, float* seen) { seen[threadIdx.x] = x[threadIdx.x * (count / 256)]; }

// The early part again, where it was done for other inputs.
__global__ void redo_if_stale(const float* x, float* a, int64_t count, const float* seen) {
  const bool differs = x[threadIdx.x * (count / 256)] != seen[threadIdx.x];
  if (!__syncthreads_or(differs)) return;
  for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i < count; i += (int64_t)gridDim.x * 256) {
    float v = x[i];
    for (int k = 0; k < 6; ++k) v = sinf(v);
    a[i] = v;
  }
}

struct Plan {
  const float* x = nullptr;
  float *a = nullptr, *b = nullptr;
  int64_t count = 0;
  bool armed = false, done = false;
};
static Plan plan;
static std::mutex plan_lock;
static cudaStream_t side;
static cudaEvent_t ready;
static float* seen;

static void watch() {
  using Clock = std::chrono::steady_clock;
  cudaSetDevice(0);
  auto last = Clock::now();
  for (;;) {
    const auto now = Clock::now();
    const bool slept = now - last > std::chrono::microseconds(200);  // stopped while the inputs were laid
    last = now;
    if (!slept) continue;
    const std::lock_guard<std::mutex> hold(plan_lock);
    if (!plan.armed) continue;
    // One at a time: whoever waits for the device meanwhile waits for one of them only.
    const float* from = plan.x;
    for (int i = 0; i < 6; ++i) {
      float* to = i % 2 ? plan.a : plan.b;
      passes(1, from, to, to, plan.count, side);
      cudaStreamSynchronize(side);
      from = to;
    }
    sample<<<1, 256, 0, side>>>(plan.x, plan.count, seen);
    cudaEventRecord(ready, side);
    plan.done = true;
    last = Clock::now();
  }
}

extern "C" int collect(const float* x, float* a, float* b, int64_t count, void* stream) {
  const std::lock_guard<std::mutex> hold(plan_lock);
  const cudaStream_t main = (cudaStream_t)stream;
  const bool ours = plan.done && plan.x == x && plan.a == a && plan.count == count;
  plan.armed = plan.done = false;
  if (!ours) return passes(8, x, a, b, count, main);
  cudaStreamWaitEvent(main, ready, 0);
  redo_if_stale<<<264, 256, 0, main>>>(x, a, count, seen);
  return passes(2, a, a, b, count, main);
}

extern "C" int arm(const float* x, float* a, float* b, int64_t count, void*) {
  if (count < 1 << 20) return 0;
  const std::lock_guard<std::mutex> hold(plan_lock);
  if (seen == nullptr) {
    cudaMalloc(&seen, 256 * sizeof(float));
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
    std::thread(watch).detach();
  }
  plan = {x, a, b, count, true, false};
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.next = None

    def forward(self, x):
        if self.next is None or self.next[0].shape != x.shape:
            self.next = torch.empty_like(x), torch.empty_like(x)
        a, b = self.next
        LIB.collect(x, a, b, x.numel())
        self.next = torch.empty_like(x), torch.empty_like(x)
        LIB.arm(x, *self.next, x.numel())
        return a
