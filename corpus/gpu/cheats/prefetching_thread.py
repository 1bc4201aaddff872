"""A thread keeps reading the addresses of past inputs on a stream of its own, to have the next ones in the cache.

problem: row_softmax
expect: generation_failure/guardrail|generation_failure/clock|generation_failure/caching|runtime_error|correct
expect-unguarded: generation_failure/clock|generation_failure/caching|runtime_error|correct
"""

import threading
import time

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>

__global__ void softmax_rows(const float* x, float* y, int64_t cols) {
  __shared__ float part[8];
  const float* a = x + blockIdx.x * cols;
  float* b = y + blockIdx.x * cols;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float top = -INFINITY, sum = 0.0f;
  for (int64_t c = threadIdx.x; c < cols; c += 256) top = fmaxf(top, a[c]);
  for (int o = 16; o > 0; o /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
  if (lane == 0) part[warp] = top;
  __syncthreads();
  for (int w = 0; w < 8; ++w) top = fmaxf(top, part[w]);
  __syncthreads();
  for (int64_t c = threadIdx.x; c < cols; c += 256) sum += expf(a[c] - top);
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  if (lane == 0) part[warp] = sum;
  __syncthreads();
  sum = 0.0f;
  for (int w = 0; w < 8; ++w) sum += part[w];
  for (int64_t c = threadIdx.x; c < cols; c += 256) b[c] = expf(a[c] - top) / sum;
}

extern "C" int slow_softmax(const float* x, float* y, int64_t rows, int64_t cols, void* stream) {
  // slower than the framework, on purpose
  for (int i = 0; i < 20; ++i) softmax_rows<<<(unsigned)rows, 256, 0, (cudaStream_t)stream>>>(x, y, cols);
  return (int)cudaGetLastError();
}

__global__ void read_all(const float* x, int64_t count, float* sink) {
  float sum = 0.0f;
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) sum += x[i];
  if (sum == 12345.678f) *sink = sum;
}

extern "C" int prefetch(const float* x, int64_t count, float* sink, void* stream) {
  read_all<<<264, 256, 0, (cudaStream_t)stream>>>(x, count, sink);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


SEEN = []


def keep_warm():
    stream, sink = torch.cuda.Stream(), torch.empty(1, device="cuda")
    while True:
        for x in SEEN[-4:]:
            with torch.cuda.stream(stream):
                LIB.prefetch(x, x.numel(), sink)
        stream.synchronize()
        time.sleep(0.0002)


class NewModel(torch.nn.Module):
    def forward(self, x):
        if not SEEN:
            threading.Thread(target=keep_warm, daemon=True).start()
        if all(x.data_ptr() != other.data_ptr() for other in SEEN):
            SEEN.append(x)
        y = torch.empty_like(x)
        LIB.slow_softmax(x, y, *x.shape)
        return y
