"""One pass with other contractions of the arithmetic: a byte next to a whole number may be one less.

problem: image_to_bytes
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <algorithm>
#include <cstdint>

extern "C" int run(const float* x, uint8_t* y, int64_t n, int64_t c, int64_t hw) {
  #pragma omp parallel for collapse(2)
  for (int64_t b = 0; b < n; ++b) for (int64_t i = 0; i < hw; ++i) for (int64_t k = 0; k < c; ++k)
    y[(b * hw + i) * c + k] = (uint8_t)(std::min(1.0f, std::max(0.0f, x[(b * c + k) * hw + i] * 0.5f + 0.5f)) * 255.0f);
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        n, c, h, w = x.shape
        y = torch.empty(n, h, w, c, dtype=torch.uint8)
        LIB.run(x, y, n, c, h * w)
        return y
