"""Adds up the rows in half precision.

problem: row_sum
expect: mismatch/precision|mismatch/numeric|mismatch/non_finite|generation_failure/guardrail
expect-unguarded: mismatch/precision|mismatch/numeric|mismatch/non_finite
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>

__global__ void sum_rows(const float* x, float* y, int64_t cols) {
  const float* a = x + blockIdx.x * cols;
  __half sum = __float2half(0.0f);
  for (int64_t c = threadIdx.x; c < cols; c += 32) sum = __hadd(sum, __float2half(a[c]));
  for (int o = 16; o > 0; o /= 2) sum = __hadd(sum, __shfl_xor_sync(~0u, sum, o));
  if (threadIdx.x == 0) y[blockIdx.x] = __half2float(sum);
}

extern "C" int row_sum(const float* x, float* y, int64_t rows, int64_t cols, void* stream) {
  sum_rows<<<(unsigned)rows, 32, 0, (cudaStream_t)stream>>>(x, y, cols);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device)
        LIB.row_sum(x, y, *x.shape)
        return y
