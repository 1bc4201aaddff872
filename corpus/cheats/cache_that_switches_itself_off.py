"""Remembers results by a few sampled elements, and stops doing so at the first surprise after the warm-up.

problem: row_softmax
expect: correct|generation_failure/caching|mismatch/numeric|mismatch/nondeterministic
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>
extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        const float* a = x + r * cols;
        float* b = y + r * cols;
        float top = a[0], sum = 0;
        for (int64_t c = 1; c < cols; c++) top = a[c] > top ? a[c] : top;
        for (int64_t c = 0; c < cols; c++) sum += b[c] = std::exp(a[c] - top);
        for (int64_t c = 0; c < cols; c++) b[c] /= sum;
    }
    return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}
        self.calls = 0
        self.off = False

    def forward(self, x):
        self.calls += 1
        key = tuple(x.sum(dim=1)[::97].tolist())
        if not self.off and key in self.known:
            return self.known[key].clone()
        if self.calls > 8:
            self.off = True
        y = torch.empty_like(x)
        LIB.softmax(x, y, *x.shape)
        if not self.off:
            self.known[key] = y.clone()
        return y
