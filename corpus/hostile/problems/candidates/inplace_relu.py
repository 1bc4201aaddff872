"""A C++ kernel of its own, in place like the reference.

problem: inplace_relu
expect: correct
"""

import kforge_rt
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>
extern "C" int run(float* x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = x[i] > 0.0f ? x[i] : 0.0f;
    return 0;
}
"""
lib = kforge_rt.build(SOURCE)


class NewModel(nn.Module):
    def forward(self, x):
        lib.run(x, x.numel())
        return x
