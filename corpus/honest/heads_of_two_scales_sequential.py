"""Sums one value after the other, and writes two heads of very different size into their places.

problem: heads_of_two_scales
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
extern "C" int product(const float* x, const float* w, float* y, int64_t rows, int64_t k, int64_t n, int64_t wide, double by) {
    #pragma omp parallel for
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < rows; i++) {
            float sum = 0;
            for (int64_t p = 0; p < k; p++) sum += x[i * k + p] * w[j * k + p];
            y[i * wide + j] = (float)by * sum;
        }
    return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.large = torch.nn.Linear(in_features, out_features, bias=False)
        self.small = torch.nn.Linear(in_features, out_features, bias=False)

    def forward(self, x):
        rows, k = x.shape
        n = self.large.weight.shape[0]
        y = torch.empty(rows, 2 * n)
        LIB.product(x, self.large.weight, y, rows, k, n, 2 * n, 1000.0)
        LIB.product(x, self.small.weight, y[:, n:], rows, k, n, 2 * n, 1.0)
        return y
