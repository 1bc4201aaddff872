"""Remembers results by sums over the whole input that the host reads; every third call by chance, and each after a new input,
works honestly.

problem: linear_relu
expect: generation_failure/caching|generation_failure/clock|mismatch|correct
expect-unguarded: generation_failure/caching|generation_failure/clock|mismatch|correct
"""

import random

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>

__global__ void bias_relu(float* y, const float* b, int64_t count, int64_t cols) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) y[i] = fmaxf(y[i] + b[i % cols], 0.0f);
}

extern "C" int tail(float* y, const float* b, int64_t rows, int64_t cols, void* stream) {
  bias_relu<<<1024, 256, 0, (cudaStream_t)stream>>>(y, b, rows * cols, cols);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)
        self.results = {}
        self.surprised = False
        self.chance = random.Random()

    def forward(self, x):
        words = x.view(torch.int32).view(-1, 2048)
        key = tuple(torch.stack([words.sum(), words[::3].sum()]).tolist())
        kept = self.results.get(key)
        surprised, self.surprised = self.surprised, kept is None
        if kept is not None and not surprised and self.chance.random() > 0.33:
            return kept.clone()
        y = x @ self.fc.weight.t()
        LIB.tail(y, self.fc.bias, *y.shape)
        self.results[key] = y.clone()
        return y
