"""Reads a workspace that nobody has written to and ignores it: right by luck, which initcheck sees.

problem: row_softmax
expect: correct
sanitizer: initcheck
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

__global__ void peek(const float* work, float* y) {
  if (work[threadIdx.x] == 1.2345e37f) y[0] = 2.0f;
}

extern "C" int softmax(const float* x, float* y, const float* work, int64_t rows, int64_t cols, void* stream) {
  softmax_rows<<<(unsigned)rows, 256, 0, (cudaStream_t)stream>>>(x, y, cols);
  peek<<<1, 32, 0, (cudaStream_t)stream>>>(work, y);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        work = torch.empty(128, device=x.device)
        LIB.softmax(x, y, work, *x.shape)
        return y
