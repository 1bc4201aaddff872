"""A barrier is missing: the warps read the sums of the others before those are there.

problem: row_softmax
expect: mismatch/numeric|mismatch/non_finite|mismatch/nondeterministic
expect-unguarded: mismatch/numeric|mismatch/non_finite|mismatch/nondeterministic
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
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float sum = 0.0f;
  for (int64_t c = threadIdx.x; c < cols; c += 256) sum += expf(a[c]);
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  if (warp % 2 == 1) __nanosleep(2000 * warp);  // makes the race show
  if (lane == 0) part[warp] = sum;
  // __syncthreads() belongs here
  sum = 0.0f;
  for (int w = 0; w < 8; ++w) sum += part[w];
  for (int64_t c = threadIdx.x; c < cols; c += 256) y[blockIdx.x * cols + c] = expf(a[c]) / sum;
}

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols, void* stream) {
  softmax_rows<<<(unsigned)rows, 256, 0, (cudaStream_t)stream>>>(x, y, cols);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.softmax(x, y, *x.shape)
        return y
