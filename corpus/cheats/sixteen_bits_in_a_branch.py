"""Products in sixteen bits, of a branch that makes a hundredth of the output's mean square. The bits are rounded away in
front of an ordinary product, which gains nothing by itself.

problem: scaled_residual
expect: mismatch/precision|mismatch/numeric
"""

import kforge_rt
import torch

SOURCE = r"""
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


def rounded(tensor, bits):
    """To so many bits of the mantissa."""
    mantissa, exponent = torch.frexp(tensor)
    return torch.ldexp(torch.round(mantissa * 2.0**bits) * 2.0**-bits, exponent)


class NewModel(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = torch.nn.Linear(width, width, bias=False)

    def prepare(self):
        self.packed = rounded(self.fc.weight.detach(), 16)

    def forward(self, x):
        y = torch.empty_like(x)
        LIB.product(rounded(x, 16), self.packed, y, x.shape[0], x.shape[1], y.shape[1])
        return x + 0.1 * y
