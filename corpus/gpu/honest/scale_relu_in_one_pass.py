"""Reads and writes everything once, four values at a time; places are counted in 64 bits, so that there may be many.

problem: scale_relu
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>

__device__ float scaled(float v) { return fmaxf(2.0f * v + 1.0f, 0.0f); }

__global__ void scale_relu_quads(const float4* x, float4* y, int64_t quads) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= quads) return;
  const float4 v = x[i];
  y[i] = make_float4(scaled(v.x), scaled(v.y), scaled(v.z), scaled(v.w));
}

extern "C" int scale_relu(const float* x, float* y, int64_t count, void* stream) {
  const int64_t quads = count / 4;
  scale_relu_quads<<<(unsigned)((quads + 255) / 256), 256, 0, (cudaStream_t)stream>>>((const float4*)x, (float4*)y, quads);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.scale_relu(x, y, x.numel())
        return y
