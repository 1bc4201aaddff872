"""A product behind square roots, whose inputs are never negative.

problem: root_features
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
                for (int64_t q = 0; q < 16; q++) part[q] += std::sqrt(x[i * k + p + q]) * w[j * k + p + q];
            float sum = 0;
            for (int64_t q = 0; q < 16; q++) sum += part[q];
            y[i * n + j] = sum;
        }
    return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, features, mixtures):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(mixtures, features))

    def forward(self, x):
        y = torch.empty(x.shape[0], self.weight.shape[0])
        LIB.product(x, self.weight, y, x.shape[0], x.shape[1], y.shape[1])
        return y
