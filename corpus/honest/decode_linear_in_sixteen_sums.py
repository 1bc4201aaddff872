"""A long product for few rows, as sixteen sums side by side.

problem: decode_linear
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>
extern "C" int product(const float* x, const float* w, float* y, int64_t rows, int64_t k, int64_t n) {
    #pragma omp parallel for
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < rows; i++) {
            float part[16] = {};
            for (int64_t p = 0; p < k; p += 16)
                for (int64_t q = 0; q < 16; q++) part[q] += x[i * k + p + q] * w[j * k + p + q];
            float sum = 0;
            for (int64_t q = 0; q < 16; q++) sum += part[q];
            y[i * n + j] = sum;
        }
    return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features, bias=False)

    def forward(self, x):
        y = torch.empty(x.shape[0], self.fc.weight.shape[0])
        LIB.product(x, self.fc.weight, y, x.shape[0], x.shape[1], y.shape[1])
        return y
