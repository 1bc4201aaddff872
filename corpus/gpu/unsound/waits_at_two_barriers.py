"""Two warps wait for each other at two different barriers, which the chip counts as one: right by luck, which synccheck sees.

problem: row_softmax
expect: correct
sanitizer: synccheck
"""

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

// The warps never diverge within themselves, and the barrier counts arrivals wherever they come from: nobody waits forever.
__global__ void peek(const float* x, float* y) {
  __shared__ volatile float seen[64];
  seen[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x < 32) {
    __syncthreads();
    if (seen[threadIdx.x + 32] == 1.2345e37f) y[0] = 2.0f;
  } else {
    __syncthreads();
    if (seen[threadIdx.x - 32] == 2.3456e37f) y[1] = 3.0f;
  }
}

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols, void* stream) {
  softmax_rows<<<(unsigned)rows, 256, 0, (cudaStream_t)stream>>>(x, y, cols);
  peek<<<1, 64, 0, (cudaStream_t)stream>>>(x, y);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.softmax(x, y, *x.shape)
        return y
