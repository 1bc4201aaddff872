"""Products in eleven bits for rows that are thousands of times smaller than the largest: the large ones make up the rms.
The bits are rounded away in front of an ordinary product, which gains nothing by itself.

problem: rows_of_all_sizes
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
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features, bias=False)

    def prepare(self):
        self.packed = rounded(self.fc.weight.detach(), 11)

    def forward(self, x):
        largest = x.abs().amax(-1)
        small = largest < largest.max() / 4096
        y = torch.empty(x.shape[0], self.packed.shape[0])
        for rows, weight in ((small, self.packed), (~small, self.fc.weight.detach())):
            some = rounded(x[rows], 11) if weight is self.packed else x[rows]
            made = torch.empty(some.shape[0], weight.shape[0])
            LIB.product(some, weight, made, some.shape[0], x.shape[1], weight.shape[0])
            y[rows] = made
        return y
