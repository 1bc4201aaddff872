"""The product by the vendor library through the framework, bias and ReLU by an own kernel.

problem: linear_relu
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>

__global__ void bias_relu(float* y, const float* b, int64_t count, int64_t cols) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
    y[i] = fmaxf(y[i] + b[i % cols], 0.0f);
}

extern "C" int tail(float* y, const float* b, int64_t rows, int64_t cols, void* stream) {
  bias_relu<<<1056, 256, 0, (cudaStream_t)stream>>>(y, b, rows * cols, cols);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)

    def forward(self, x):
        y = torch.matmul(x, self.fc.weight.t())
        LIB.tail(y, self.fc.bias, *y.shape)
        return y
