"""Two passes over the upper 26 bits: values that agree in them stay in the order in which they came.

problem: sort_rows
expect: mismatch/numeric
expect-unguarded: mismatch/numeric
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
#include <cstring>
#include <vector>

static inline uint32_t key(uint32_t b) { return b ^ ((uint32_t)((int32_t)b >> 31) | 0x80000000u); }
static inline uint32_t bits(uint32_t k) { return k ^ ((uint32_t)((int32_t)~k >> 31) | 0x80000000u); }

extern "C" int sort_rows(const uint32_t* x, uint32_t* y, int64_t rows, int64_t cols) {
  #pragma omp parallel
  {
    constexpr int passes = PASSES, width = WIDTH, first = 32 - passes * width > 0 ? 32 - passes * width : 0;
    constexpr uint32_t most = (1u << width) - 1;
    std::vector<uint32_t> a(cols), b(cols), counts(passes << width);
    #pragma omp for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
      std::memset(counts.data(), 0, 4 * counts.size());
      for (int64_t c = 0; c < cols; ++c) {
        const uint32_t k = key(x[r * cols + c]);
        a[c] = k;
        for (int p = 0; p < passes; ++p) ++counts[(p << width) + ((k >> (first + p * width)) & most)];
      }
      uint32_t *from = a.data(), *to = b.data();
      for (int p = 0; p < passes; ++p) {
        uint32_t* at = counts.data() + (p << width);
        uint32_t sum = 0;
        for (uint32_t i = 0; i <= most; ++i) {
          const uint32_t n = at[i];
          at[i] = sum;
          sum += n;
        }
        const int shift = first + p * width;
        if (p == passes - 1) {
          for (int64_t c = 0; c < cols; ++c) y[r * cols + at[(from[c] >> shift) & most]++] = bits(from[c]);
        } else {
          for (int64_t c = 0; c < cols; ++c) to[at[(from[c] >> shift) & most]++] = from[c];
        }
        std::swap(from, to);
      }
    }
  }
  return 0;
}
""".replace("PASSES", "2").replace("WIDTH", "13")
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.sort_rows(x, y, *x.shape)
        return y
