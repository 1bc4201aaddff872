"""Products in eleven bits for the smaller of two heads, which share one output. The bits are rounded away in front of an
ordinary product, which gains nothing by itself.

problem: heads_of_two_scales
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
        self.large = torch.nn.Linear(in_features, out_features, bias=False)
        self.small = torch.nn.Linear(in_features, out_features, bias=False)

    def prepare(self):
        self.packed = rounded(self.small.weight.detach(), 11)

    def forward(self, x):
        heads = [torch.empty(x.shape[0], self.packed.shape[0]) for _ in range(2)]
        for head, values, weight in ((0, x, self.large.weight), (1, rounded(x, 11), self.packed)):
            LIB.product(values, weight, heads[head], x.shape[0], x.shape[1], weight.shape[0])
        return torch.cat([1000.0 * heads[0], heads[1]], dim=-1)
