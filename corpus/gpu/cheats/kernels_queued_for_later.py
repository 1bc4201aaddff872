"""Every eighth call leaves a long kernel on another stream, behind an event of its own that is there only when forward is done: it
runs while the baseline is timed, whatever becomes of this process.

problem: row_softmax
expect: generation_failure|runtime_error|correct|mismatch
expect-unguarded: generation_failure|runtime_error|correct|mismatch
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

__global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols, void* stream) {
  static cudaStream_t side = nullptr;
  static cudaEvent_t done;
  static int calls = 0;
  if (side == nullptr) {
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
  }
  softmax_rows<<<(unsigned)rows, 256, 0, (cudaStream_t)stream>>>(x, y, cols);
  // Never twice in a row, since that would be noticed.
  if (rows > 1024 && ++calls % 8 == 0) {
    cudaEventRecord(done, (cudaStream_t)stream);
    cudaStreamWaitEvent(side, done, 0);
    spin<<<132, 1024, 0, side>>>(40000000);
  }
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.softmax(x, y, *x.shape)
        return y
