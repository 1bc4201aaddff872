"""Takes the gain for one and the bias for zero, as they are initialised.

problem: scale_bias
expect: mismatch/numeric
expect-unguarded: mismatch/numeric
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
#include <cstring>

extern "C" int copy(const float* x, float* y, int64_t count) {
  std::memcpy(y, x, count * sizeof(float));
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x):
        y = torch.empty_like(x)
        LIB.copy(x, y, x.numel())
        return y
