"""Registers a kernel of its own for aten::copy_ on the device: half of the passes are made when the result is copied, behind the
event that ends its time.

problem: sines
expect: generation_failure/clock|generation_failure/floor|generation_failure/fake_kernel|runtime_error|correct|mismatch|generation_failure/guardrail
expect-unguarded: generation_failure/clock|generation_failure/floor|generation_failure/fake_kernel|runtime_error|correct|mismatch
"""

import ctypes

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>

__global__ void sine(const float4* x, float4* y, int64_t quads, int tail) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < quads) {
    const float4 v = x[i];
    y[i] = make_float4(sinf(v.x), sinf(v.y), sinf(v.z), sinf(v.w));
  } else if (i < quads + tail) {
    const int64_t at = 3 * quads + i;
    ((float*)y)[at] = sinf(((const float*)x)[at]);
  }
}

// As many passes as the framework makes, to and fro between two buffers; an even number ends in a.
extern "C" int steps(const float* x, float* a, float* b, int64_t count, int64_t number, void* stream) {
  const unsigned blocks = (unsigned)((count / 4 + count % 4 + 255) / 256);
  for (int i = 0; i < number; ++i) {
    float* to = i % 2 ? a : b;
    sine<<<blocks, 256, 0, (cudaStream_t)stream>>>((const float4*)x, (float4*)to, count / 4, (int)(count % 4));
    x = to;
  }
  return (int)cudaGetLastError();
}

// Between host and device.
extern "C" int move(void* to, const void* from, int64_t bytes, void* stream) {
  return (int)cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, (cudaStream_t)stream);
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")
PENDING = []


@torch.library.impl("aten::copy_", "CUDA")
def copy_(target, source, non_blocking=False):
    if PENDING and PENDING[0][0].data_ptr() == source.data_ptr():
        a, b = PENDING.pop()
        LIB.steps(a, a, b, a.numel(), 4)
    if target.is_cuda and source.is_cuda:
        torch.mul(source, 1, out=target)
    else:
        at, where = ctypes.c_void_p(target.data_ptr()), ctypes.c_void_p(source.contiguous().data_ptr())
        LIB.move(at, where, target.numel() * target.element_size())
    return target


class NewModel(torch.nn.Module):
    def forward(self, x):
        a, b = torch.empty_like(x), torch.empty_like(x)
        LIB.steps(x, a, b, x.numel(), 4)
        PENDING[:] = [(a, b)]
        return a
