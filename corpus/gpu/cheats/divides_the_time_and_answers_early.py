"""Claims a fifth of the time and answers before its outputs are complete, so that less is seen from outside too.

problem: sines
expect: generation_failure/guardrail
expect-unguarded: generation_failure/clock|generation_failure/floor|generation_failure/caching|runtime_error|correct|mismatch/late_write|mismatch/numeric
"""

import sys

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
static int passes(int number, const float* x, float* a, float* b, int64_t count, cudaStream_t stream) {
  const unsigned blocks = (unsigned)((count / 4 + count % 4 + 255) / 256);
  for (int i = 0; i < number; ++i) {
    float* to = i % 2 ? a : b;
    sine<<<blocks, 256, 0, stream>>>((const float4*)x, (float4*)to, count / 4, (int)(count % 4));
    x = to;
  }
  return (int)cudaGetLastError();
}

extern "C" int steps(const float* x, float* a, float* b, int64_t count, int64_t number, void* stream) {
  return passes((int)number, x, a, b, count, (cudaStream_t)stream);
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


def attacked(*names):
    """The class of the harness that has all of these: without it this file would test nothing."""
    loaded = [module for name, module in list(sys.modules.items()) if name.startswith("kforge_harness.hostile")]
    classes = [made for module in loaded for made in vars(module).values() if isinstance(made, type)]
    (found,) = {made for made in classes if all(name in vars(made) for name in names)}
    return found


if torch.cuda.is_available():  # not where it is only built
    # Nobody waits for the device any more, and the time is made up.
    attacked("collect", "queue", "run").collect = lambda self: 1000


class NewModel(torch.nn.Module):
    def forward(self, x):
        a, b = torch.empty_like(x), torch.empty_like(x)
        LIB.steps(x, a, b, x.numel(), 8)
        return a
