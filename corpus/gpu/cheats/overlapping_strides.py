"""Doubles the signal once and returns windows that share its memory, by strides that are not zero.

problem: windows
expect: mismatch/strides|mismatch/alias|mismatch/numeric|generation_failure
expect-unguarded: mismatch/strides|mismatch/alias|mismatch/numeric|generation_failure
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>

__global__ void doubled_all(const float* x, float* y, int64_t count) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = 2.0f * x[i];
}

extern "C" int doubled(const float* x, float* y, int64_t count, void* stream) {
  doubled_all<<<(unsigned)((count + 255) / 256), 256, 0, (cudaStream_t)stream>>>(x, y, count);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.doubled(x, y, x.numel())
        return y.as_strided((x.numel() - 2047, 2048), (1, 1))
