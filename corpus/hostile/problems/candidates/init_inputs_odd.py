"""A C++ kernel of its own.

problem: init_inputs_odd
expect: correct
"""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cstdint>
extern "C" int run(const float* x, float* y, int64_t n, double scale) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * (float)scale;
    return 0;
}
"""
lib = kforge_rt.build(SOURCE)


class NewModel(nn.Module):
    def __init__(self, sizes, kernel, none, dtype, kind, options):
        super().__init__()
        if type(kernel) is not tuple or dtype is not torch.float32 or options != {"a": 1}:
            raise ValueError("the arguments were not handed through")
        self.total = float(sum(sizes) + sum(kernel))

    def forward(self, x):
        y = torch.empty_like(x)
        lib.run(x, y, x.numel(), self.total)
        return y
