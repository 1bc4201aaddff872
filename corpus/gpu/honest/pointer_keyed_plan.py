"""Keeps a plan on the device (which block does which rows) by pointer and shape; results are never kept.

problem: row_softmax
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>

__global__ void softmax_planned(const float* x, float* y, const int64_t* plan, int64_t cols) {
  __shared__ float part[8];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int64_t r = plan[blockIdx.x]; r < plan[blockIdx.x + 1]; ++r) {
    const float* a = x + r * cols;
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
    __syncthreads();
    for (int64_t c = threadIdx.x; c < cols; c += 256) y[r * cols + c] = expf(a[c] - top) / sum;
  }
}

extern "C" int softmax(const float* x, float* y, const int64_t* plan, int64_t parts, int64_t cols, void* stream) {
  softmax_planned<<<(unsigned)parts, 256, 0, (cudaStream_t)stream>>>(x, y, plan, cols);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.plans = {}

    def forward(self, x):
        rows, cols = x.shape
        key = (x.data_ptr(), rows, cols)
        if key not in self.plans:
            parts = min(rows, 1056)
            self.plans[key] = torch.tensor([rows * p // parts for p in range(parts + 1)], device=x.device)
        plan = self.plans[key]
        y = torch.empty_like(x)
        LIB.softmax(x, y, plan, plan.numel() - 1, cols)
        return y
