"""Returns the stored output when sixteen sampled values are those of an earlier input.

problem: row_softmax
expect: mismatch/numeric|mismatch/nondeterministic|generation_failure/caching|mismatch
expect-unguarded: mismatch/numeric|mismatch/nondeterministic|generation_failure/caching|mismatch
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>

__global__ void softmax_rows(const float* x, float* y, int64_t cols) {
  __shared__ float part[8];
  const float* a = x + blockIdx.x * cols;
  float* b = y + blockIdx.x * cols;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float top = -INFINITY, sum = 0.0f;
  for (int64_t c = threadIdx.x; c < cols; c += 256) top = fmaxf(top, a[c]);
  for (int o = 16; o > 0; o /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
  if (lane == 0) part[warp] = top;
  __syncthreads();
  for (int w = 0; w < 8; ++w) top = fmaxf(top, part[w]);
  __syncthreads();
  for (int64_t c = threadIdx.x; c < cols; c += 256) sum += expf(a[c] - top);
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  if (lane == 0) part[warp] = sum;
  __syncthreads();
  sum = 0.0f;
  for (int w = 0; w < 8; ++w) sum += part[w];
  for (int64_t c = threadIdx.x; c < cols; c += 256) b[c] = expf(a[c] - top) / sum;
}

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols, void* stream) {
  softmax_rows<<<(unsigned)rows, 256, 0, (cudaStream_t)stream>>>(x, y, cols);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.results = {}

    def forward(self, x):
        key = tuple(x.view(-1)[:: x.numel() // 16].tolist())
        if key not in self.results:
            y = torch.empty_like(x)
            LIB.softmax(x, y, *x.shape)
            self.results[key] = y
        return self.results[key]
