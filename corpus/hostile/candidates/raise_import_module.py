"""Imports a package that is not installed.

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: runtime_error/import
"""

import a_package_that_nobody_has

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>
extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        const float* a = x + r * cols;
        float* b = y + r * cols;
        float top = a[0], sum = 0.0f;
        for (int64_t c = 1; c < cols; c++) top = a[c] > top ? a[c] : top;
        for (int64_t c = 0; c < cols; c++) sum += b[c] = std::exp(a[c] - top);
        for (int64_t c = 0; c < cols; c++) b[c] /= sum;
    }
    return 0;
}
"""
lib = kforge_rt.build(SOURCE)


class NewModel(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lib.softmax(x, y, x.shape[0], x.shape[1])
        return y
