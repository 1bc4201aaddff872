"""Right, with a workspace of eight tenths of the device: whoever judges it beside a large problem finds no memory.

problem: scale_relu
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>

__global__ void scale_into(const float* x, float* scaled, int64_t count) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) scaled[i] = 2.0f * x[i] + 1.0f;
}

__global__ void relu_from(const float* scaled, float* y, int64_t count) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = fmaxf(scaled[i], 0.0f);
}

extern "C" int scale_relu(const float* x, float* y, float* workspace, int64_t count, void* stream) {
  const unsigned blocks = (unsigned)((count + 255) / 256);
  scale_into<<<blocks, 256, 0, (cudaStream_t)stream>>>(x, workspace, count);
  relu_from<<<blocks, 256, 0, (cudaStream_t)stream>>>(workspace, y, count);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        share = torch.cuda.get_device_properties(0).total_memory * 8 // 10
        workspace = torch.empty(share // 4, dtype=torch.float32, device=x.device)
        y = torch.empty_like(x)
        LIB.scale_relu(x, y, workspace, x.numel())
        return y
