"""Writes zeros to its input and returns the answer for zeros.

problem: row_softmax
expect: mismatch/input_mutated|mismatch/numeric
expect-unguarded: mismatch/input_mutated|mismatch/numeric
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>

__global__ void fill(float* x, float value, int64_t count) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) x[i] = value;
}

extern "C" int constant_answer(float* x, float* y, int64_t rows, int64_t cols, void* stream) {
  fill<<<1024, 256, 0, (cudaStream_t)stream>>>(x, 0.0f, rows * cols);
  fill<<<1024, 256, 0, (cudaStream_t)stream>>>(y, 1.0f / cols, rows * cols);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.constant_answer(x, y, *x.shape)
        return y
