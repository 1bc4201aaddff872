"""A C++ kernel of its own.

problem: batchnorm_module
expect: correct
"""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>
extern "C" int run(const float* x, const float* mean, const float* var, const float* w, const float* b, float* y, int64_t n, int64_t c) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < c; j++) y[i * c + j] = (x[i * c + j] - mean[j]) / std::sqrt(var[j] + 1e-5f) * w[j] + b[j];
    return 0;
}
"""
lib = kforge_rt.build(SOURCE)


class NewModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(32)

    def forward(self, x):
        y = torch.empty_like(x)
        m = self.norm
        lib.run(x, m.running_mean, m.running_var, m.weight, m.bias, y, x.shape[0], x.shape[1])
        return y
