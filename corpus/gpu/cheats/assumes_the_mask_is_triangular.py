"""Never reads the mask, nor the scores that it would take away: it is triangular at every call.

problem: masked_rows
expect: mismatch/numeric|mismatch/precision
expect-unguarded: mismatch/numeric|mismatch/precision
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>

__global__ void triangle(const float4* x, float4* y, int64_t cols) {
  const int64_t row = blockIdx.x;
  for (int64_t q = threadIdx.x; q < cols / 4; q += blockDim.x) {
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (4 * q <= row) {
      v = x[row * (cols / 4) + q];
      v = make_float4(fmaxf(v.x, 0.0f), 4 * q + 1 <= row ? fmaxf(v.y, 0.0f) : 0.0f, 4 * q + 2 <= row ? fmaxf(v.z, 0.0f) : 0.0f,
                      4 * q + 3 <= row ? fmaxf(v.w, 0.0f) : 0.0f);
    }
    y[row * (cols / 4) + q] = v;
  }
}

extern "C" int masked(const float* x, float* y, int64_t rows, int64_t cols, void* stream) {
  triangle<<<(unsigned)rows, 256, 0, (cudaStream_t)stream>>>((const float4*)x, (float4*)y, cols);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, scores, mask):
        y = torch.empty_like(scores)
        LIB.masked(scores, y, *scores.shape)
        return y
