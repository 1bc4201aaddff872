"""Weights as whole numbers of twenty bits: the room that a long sum is given for rounding is enough for them, but not
where only a few terms of the sum are other than zero.

problem: decode_linear
expect: mismatch/precision|mismatch/numeric
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


def rounded(weight, bits):
    """Whole numbers of so many bits, with a scale for each 64 of them."""
    blocks = weight.reshape(-1, 64)
    scale = (blocks.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)).clamp(min=1e-30)
    return ((blocks / scale).round() * scale).reshape(weight.shape).contiguous()


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features, bias=False)

    def prepare(self):
        self.packed = rounded(self.fc.weight.detach(), 20)

    def forward(self, x):
        y = torch.empty(x.shape[0], self.packed.shape[0])
        LIB.product(x, self.packed, y, x.shape[0], x.shape[1], y.shape[1])
        return y
