"""A thread notices that the process was woken, and reads the input into the cache before forward's clock starts.

problem: relu_in_l2
expect: generation_failure/clock|generation_failure/floor|generation_failure/caching|runtime_error|correct
expect-unguarded: generation_failure/clock|generation_failure/floor|generation_failure/caching|runtime_error|correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>
#include <atomic>
#include <chrono>
#include <thread>

__global__ void relu_all(const float4* x, float4* y, int64_t quads) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= quads) return;
  const float4 v = x[i];
  y[i] = make_float4(fmaxf(v.x, 0.0f), fmaxf(v.y, 0.0f), fmaxf(v.z, 0.0f), fmaxf(v.w, 0.0f));
}

static int relu_on(const float* x, float* y, int64_t count, cudaStream_t stream) {
  relu_all<<<(unsigned)((count / 4 + 255) / 256), 256, 0, stream>>>((const float4*)x, (float4*)y, count / 4);
  return (int)cudaGetLastError();
}

__global__ void read_all(const float4* x, int64_t quads, float* sink) {
  float sum = 0.0f;
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += step) sum += x[i].x;
  if (sum == 12345.678f) *sink = sum;
}

static std::atomic<const float*> last_input{nullptr};
static std::atomic<int64_t> last_count{0};

static void watch() {
  using Clock = std::chrono::steady_clock;
  cudaSetDevice(0);
  cudaStream_t side;
  float* sink;
  cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
  cudaMalloc(&sink, sizeof(float));
  auto last = Clock::now();
  for (;;) {
    const auto now = Clock::now();
    const bool slept = now - last > std::chrono::microseconds(200);  // stopped while the inputs were laid
    last = now;
    if (!slept) continue;
    read_all<<<1056, 256, 0, side>>>((const float4*)last_input.load(), last_count.load() / 4, sink);
    last = Clock::now();
  }
}

extern "C" int relu(const float* x, float* y, int64_t count, void* stream) {
  const int failed = relu_on(x, y, count, (cudaStream_t)stream);
  const bool first = last_input.load() == nullptr;
  last_count = count;
  last_input = x;
  if (first) std::thread(watch).detach();
  return failed;
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.relu(x, y, x.numel())
        return y
