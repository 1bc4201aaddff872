"""Returns its input where the reference returns a copy: the values are right.

problem: copy_rows
expect: mismatch/alias
"""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cstdint>
extern "C" int copy(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i];
    return 0;
}
"""
lib = kforge_rt.build(SOURCE)


class NewModel(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lib.copy(x, y, x.numel())
        return x
