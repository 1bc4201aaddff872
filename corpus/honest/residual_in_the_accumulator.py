"""Adds products to the residual one by one: each sum is rounded next to it, and not next to the branch.

problem: scaled_residual
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
extern "C" int residual(const float* x, const float* w, float* y, int64_t rows, int64_t k) {
    #pragma omp parallel for
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < rows; i++) {
            float sum = x[i * k + j];
            for (int64_t p = 0; p < k; p++) sum += 0.1f * x[i * k + p] * w[j * k + p];
            y[i * k + j] = sum;
        }
    return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = torch.nn.Linear(width, width, bias=False)

    def forward(self, x):
        y = torch.empty_like(x)
        LIB.residual(x, self.fc.weight, y, x.shape[0], x.shape[1])
        return y
