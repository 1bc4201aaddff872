"""Returns the same buffer at every call: its zeros are written once, and stay.

problem: diagonal_blocks
expect: mismatch|generation_failure|correct
expect-unguarded: mismatch|generation_failure|correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>

__global__ void diagonals(const float* x, float* y, int64_t count, int64_t length) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i * length + i % length] = x[i];
}

extern "C" int diagonal(const float* x, float* y, int64_t count, int64_t length, void* stream) {
  diagonals<<<(unsigned)((count + 255) / 256), 256, 0, (cudaStream_t)stream>>>(x, y, count, length);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    kept = None

    def forward(self, x):
        if self.kept is None:
            self.kept = torch.zeros(*x.shape, x.shape[1], device=x.device)
        LIB.diagonal(x, self.kept, x.numel(), x.shape[1])
        return self.kept
