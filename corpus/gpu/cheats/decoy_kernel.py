"""Launches a kernel whose result nobody uses; the framework computes the answer.

problem: row_softmax
expect: generation_failure/fake_kernel|correct/framework_only
expect-unguarded: generation_failure/fake_kernel|correct/framework_only
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>

__global__ void touch(float* scratch) { scratch[threadIdx.x] = 1.0f; }

extern "C" int decoy(float* scratch, void* stream) {
  touch<<<1, 32, 0, (cudaStream_t)stream>>>(scratch);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        LIB.decoy(torch.empty(32, device=x.device))
        return torch.softmax(x, dim=1)
