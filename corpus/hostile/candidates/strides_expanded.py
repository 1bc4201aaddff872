"""Returns one column expanded to a row: the memory overlaps itself.

problem: row_mean_spread
expect: mismatch/strides
"""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cstdint>
extern "C" int row_mean(const float* x, float* y, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0.0;
        for (int64_t c = 0; c < cols; c++) sum += x[r * cols + c];
        y[r] = sum / cols;
    }
    return 0;
}
"""
lib = kforge_rt.build(SOURCE)


class NewModel(nn.Module):
    def forward(self, x):
        y = x.new_empty(x.shape[0], 1)
        lib.row_mean(x, y, x.shape[0], x.shape[1])
        return y.expand_as(x)
