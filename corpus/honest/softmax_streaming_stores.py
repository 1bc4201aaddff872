"""Stores that go past the caches: the output lies in memory when forward returns, and is slow to hand over.

problem: row_softmax
expect: correct
timed: results that are slow to hand over
"""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <vector>
#if defined(__SSE2__)
#include <immintrin.h>
#endif
static void put(float* to, const float* from, int64_t n) {
    int64_t c = 0;
#if defined(__SSE2__)
    for (; c < n && ((uintptr_t)(to + c) & 15); c++) to[c] = from[c];
    for (; c + 4 <= n; c += 4) _mm_stream_ps(to + c, _mm_loadu_ps(from + c));
#endif
    for (; c < n; c++) to[c] = from[c];
}
extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols) {
    #pragma omp parallel
    {
        std::vector<float> row(cols);
        #pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; r++) {
            const float* a = x + r * cols;
            float top = a[0], sum = 0.0f;
            for (int64_t c = 1; c < cols; c++) top = a[c] > top ? a[c] : top;
            for (int64_t c = 0; c < cols; c++) sum += row[c] = std::exp(a[c] - top);
            for (int64_t c = 0; c < cols; c++) row[c] /= sum;
            put(y + r * cols, row.data(), cols);
        }
#if defined(__SSE2__)
        _mm_sfence();
#endif
    }
    return 0;
}
"""
lib = kforge_rt.build(SOURCE)


class NewModel(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        lib.softmax(x, y, x.shape[0], x.shape[1])
        return y
