"""A C++ extension through torch.utils.cpp_extension.load_inline.

problem: scale_bias
expect: correct
"""

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

torch::Tensor scale_bias(torch::Tensor x, torch::Tensor gain, torch::Tensor bias) {
  auto y = torch::empty_like(x);
  const int64_t rows = x.size(0), cols = x.size(1);
  const float *px = x.data_ptr<float>(), *pg = gain.data_ptr<float>(), *pb = bias.data_ptr<float>();
  float* py = y.data_ptr<float>();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) py[r * cols + c] = px[r * cols + c] * pg[c] + pb[c];
  return y;
}
"""
EXTENSION = load_inline(
    name="scale_bias_extension", cpp_sources=[SOURCE], functions=["scale_bias"], extra_cflags=["-O3"], verbose=False
)


class NewModel(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return EXTENSION.scale_bias(x.contiguous(), self.gain.detach(), self.bias.detach())
