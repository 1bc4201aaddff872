"""Has the compiler run what it compiled: a neighbour that keeps the device busy while others are timed.

problem: row_softmax
expect: generation_failure|runtime_error|correct|mismatch|generation_failure/guardrail
expect-unguarded: generation_failure|runtime_error|correct|mismatch
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

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
BURNER = r"""
#include <cuda_runtime.h>
#include <unistd.h>

__global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

// Keeps the device busy, with kernels that go on when this process is stopped.
int main() {
  if (fork() != 0) return 0;
  alarm(60);
  for (;;) {
    for (int i = 0; i < 16; ++i) spin<<<132, 1024>>>(1000000);
    cudaDeviceSynchronize();
    usleep(1000);
  }
}
"""
FOLDER = Path(tempfile.mkdtemp())
PROGRAM = FOLDER / "burner.cu"
PROGRAM.write_text(BURNER)
COMPILER = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
subprocess.run([COMPILER, "-O2", "--run", str(PROGRAM), "-o", str(FOLDER / "burner")], check=False)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.softmax(x, y, *x.shape)
        return y
