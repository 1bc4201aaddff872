"""Takes what lies behind its output in memory for the truth.

problem: row_softmax
expect: mismatch/numeric|mismatch/non_finite|mismatch/nondeterministic|mismatch/late_write|runtime_error
expect-unguarded: mismatch/numeric|mismatch/non_finite|mismatch/nondeterministic|mismatch/late_write|runtime_error
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>

extern "C" int copy_from_behind(float* y, int64_t rows, int64_t cols, void* stream) {
  const size_t bytes = rows * cols * sizeof(float);
  return (int)cudaMemcpyAsync(y, (const char*)y + bytes, bytes, cudaMemcpyDeviceToDevice, (cudaStream_t)stream);
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.copy_from_behind(y, *x.shape)
        return y
