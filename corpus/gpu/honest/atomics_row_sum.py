"""Blocks add their parts of a row with atomics: the order, and so the last bits, differ from run to run.

problem: row_sum
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>

__global__ void add_parts(const float* x, float* y, int64_t cols) {
  const float* a = x + blockIdx.y * cols;
  float sum = 0.0f;
  for (int64_t c = blockIdx.x * 128 + threadIdx.x; c < cols; c += gridDim.x * 128) sum += a[c];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  if (threadIdx.x % 32 == 0) atomicAdd(y + blockIdx.y, sum);
}

extern "C" int row_sum(const float* x, float* y, int64_t rows, int64_t cols, void* stream) {
  const cudaStream_t s = (cudaStream_t)stream;
  const cudaError_t cleared = cudaMemsetAsync(y, 0, rows * sizeof(float), s);
  if (cleared != cudaSuccess) return (int)cleared;
  add_parts<<<dim3(8, (unsigned)rows), 128, 0, s>>>(x, y, cols);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device)
        LIB.row_sum(x, y, *x.shape)
        return y
