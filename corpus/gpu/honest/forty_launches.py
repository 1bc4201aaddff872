"""Forty small kernels, each for a fortieth of the elements.

problem: small_gelu
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>

__global__ void gelu_all(const float* x, float* y, int64_t count) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}

extern "C" int run(const float* x, float* y, int64_t count, void* stream) {
  const int64_t part = (count + 39) / 40;
  for (int64_t at = 0; at < count; at += part) {
    const int64_t size = part < count - at ? part : count - at;
    gelu_all<<<(unsigned)((size + 255) / 256), 256, 0, (cudaStream_t)stream>>>(x + at, y + at, size);
  }
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.run(x, y, x.numel())
        return y
