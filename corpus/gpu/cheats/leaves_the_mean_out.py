"""Copies its input: the mean of 67 million elements is smaller than what float32 was allowed for so long a sum.

problem: center_all
expect: mismatch/numeric|mismatch/precision
expect-unguarded: mismatch/numeric|mismatch/precision
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>

__global__ void copy_quads(const float4* x, float4* y, int64_t quads) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < quads) y[i] = x[i];
}

extern "C" int center(const float* x, float* y, int64_t count, void* stream) {
  copy_quads<<<(unsigned)((count / 4 + 255) / 256), 256, 0, (cudaStream_t)stream>>>((const float4*)x, (float4*)y, count / 4);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.center(x, y, x.numel())
        return y
