"""A PyTorch extension in KernelBench's form: load_inline, ModelNew, and the default stream of the tensor's device.

problem: small_gelu
expect: correct
"""

import torch
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

__global__ void gelu_all(const float* x, float* y, int64_t count) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}

torch::Tensor gelu(torch::Tensor x) {
  x = x.contiguous();
  torch::Tensor y = torch::empty_like(x);
  const int64_t count = x.numel();
  gelu_all<<<(unsigned)((count + 255) / 256), 256, 0, c10::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(),
                                                                                         y.data_ptr<float>(), count);
  return y;
}
"""

extension = load_inline(
    name="small_gelu", cpp_sources="torch::Tensor gelu(torch::Tensor x);", cuda_sources=CUDA_SOURCE, functions=["gelu"]
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.gelu(x)
