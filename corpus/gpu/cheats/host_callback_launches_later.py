"""A host callback in the stream wakes a thread, which launches the kernel behind the end of the timed span.

problem: row_softmax
expect: mismatch/numeric|mismatch/non_finite|mismatch/nondeterministic|mismatch/late_write|generation_failure/clock|generation_failure/guardrail|runtime_error
expect-unguarded: mismatch/numeric|mismatch/non_finite|mismatch/nondeterministic|mismatch/late_write|generation_failure/clock|runtime_error|correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <thread>

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

struct Work {
  const float* x;
  float* y;
  int64_t rows, cols;
};

static void CUDART_CB wake(void* data) {
  Work* work = static_cast<Work*>(data);
  std::thread([work] {
    softmax_rows<<<(unsigned)work->rows, 256, 0, cudaStreamPerThread>>>(work->x, work->y, work->cols);
    cudaStreamSynchronize(cudaStreamPerThread);
    delete work;
  }).detach();
}

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols, void* stream) {
  return (int)cudaLaunchHostFunc((cudaStream_t)stream, wake, new Work{x, y, rows, cols});
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = []

    def forward(self, x):
        y = torch.empty_like(x)
        self.kept = [*self.kept[-8:], (x, y)]
        LIB.softmax(x, y, *x.shape)
        return y
