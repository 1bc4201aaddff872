"""Sums one value after the other, in rows of which a few make up the output's rms.

problem: rows_of_all_sizes
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
        self.fc = torch.nn.Linear(in_features, out_features, bias=False)

    def forward(self, x):
        rows, k = x.shape
        n = self.fc.weight.shape[0]
        y = torch.empty(rows, n)
        LIB.product(x, self.fc.weight, y, rows, k, n, n, 1.0)
        return y
