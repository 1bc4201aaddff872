"""Changes its weights at every call.

problem: linear_relu
expect: mismatch/numeric | mismatch/nondeterministic
"""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cstdint>
extern "C" int linear_relu(const float* x, const float* w, const float* b, float* y, int64_t n, int64_t k, int64_t m) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) {
            float sum = b[j];
            for (int64_t l = 0; l < k; l++) sum += x[i * k + l] * w[j * k + l];
            y[i * m + j] = sum > 0.0f ? sum : 0.0f;
        }
    return 0;
}
"""
lib = kforge_rt.build(SOURCE)


class NewModel(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.outputs = outputs
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        y = x.new_empty(x.shape[0], self.outputs)
        lib.linear_relu(x, self.linear.weight, self.linear.bias, y, x.shape[0], x.shape[1], self.outputs)
        self.linear.weight.mul_(1.1)
        return y
