"""A kernel of a few microseconds on a stream that is not joined: over before anybody would call the device busy.

problem: small_gelu
expect: generation_failure/clock|mismatch/numeric|mismatch/non_finite|mismatch/nondeterministic|mismatch/late_write|correct
expect-unguarded: generation_failure/clock|mismatch/numeric|mismatch/non_finite|mismatch/nondeterministic|mismatch/late_write|correct
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
  static cudaStream_t side = nullptr;
  static cudaEvent_t begun = nullptr;
  if (side == nullptr) {
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&begun, cudaEventDisableTiming);
  }
  cudaEventRecord(begun, (cudaStream_t)stream);
  cudaStreamWaitEvent(side, begun, 0);
  gelu_all<<<(unsigned)((count + 255) / 256), 256, 0, side>>>(x, y, count);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.run(x, y, x.numel())
        return y
