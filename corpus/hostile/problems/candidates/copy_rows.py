"""A C++ kernel of its own.

problem: copy_rows
expect: correct
"""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>
extern "C" int run(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i];
    return 0;
}
"""
lib = kforge_rt.build(SOURCE)


class NewModel(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lib.run(x, y, x.numel())
        return y
