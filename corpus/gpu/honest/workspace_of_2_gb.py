"""Allocates two gigabytes in each call, and passes its values through the far end of them.

problem: scale_relu
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>

__global__ void relu_all(const float4* x, float4* y, int64_t quads) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= quads) return;
  const float4 v = x[i];
  y[i] = make_float4(fmaxf(v.x, 0.0f), fmaxf(v.y, 0.0f), fmaxf(v.z, 0.0f), fmaxf(v.w, 0.0f));
}

static int relu_on(const float* x, float* y, int64_t count, cudaStream_t stream) {
  relu_all<<<(unsigned)((count / 4 + 255) / 256), 256, 0, stream>>>((const float4*)x, (float4*)y, count / 4);
  return (int)cudaGetLastError();
}

__global__ void scale_all(const float4* x, float4* y, int64_t quads) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= quads) return;
  const float4 v = x[i];
  y[i] = make_float4(2.0f * v.x + 1.0f, 2.0f * v.y + 1.0f, 2.0f * v.z + 1.0f, 2.0f * v.w + 1.0f);
}

extern "C" int run(const float* x, float* space, int64_t room, float* y, int64_t count, void* stream) {
  float* far_end = space + (room - count) / 4 * 4;
  const unsigned blocks = (unsigned)((count / 4 + 255) / 256);
  scale_all<<<blocks, 256, 0, (cudaStream_t)stream>>>((const float4*)x, (float4*)far_end, count / 4);
  return relu_on(far_end, y, count, (cudaStream_t)stream);
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        space = torch.empty(2**29, device=x.device)
        y = torch.empty_like(x)
        LIB.run(x, space, space.numel(), y, x.numel())
        return y
