"""Caches a plan (how rows are shared out) by data pointer and shape; results are never cached.

problem: row_softmax
expect: correct
timed: what it keeps between calls
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" int softmax(const float* x, float* y, const int64_t* plan, int64_t parts, int64_t cols) {
  #pragma omp parallel for
  for (int64_t p = 0; p < parts; ++p) {
    for (int64_t r = plan[p]; r < plan[p + 1]; ++r) {
      const float* a = x + r * cols;
      float* b = y + r * cols;
      float top = a[0], sum = 0.0f;
      for (int64_t c = 1; c < cols; ++c) top = a[c] > top ? a[c] : top;
      for (int64_t c = 0; c < cols; ++c) sum += b[c] = std::exp(a[c] - top);
      for (int64_t c = 0; c < cols; ++c) b[c] /= sum;
    }
  }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.plans = {}

    def forward(self, x):
        rows, cols = x.shape
        key = (x.data_ptr(), rows, cols)
        plan = self.plans.get(key)
        if plan is None:
            parts = 8
            plan = torch.tensor([rows * p // parts for p in range(parts + 1)], dtype=torch.int64)
            self.plans[key] = plan
        y = torch.empty_like(x)
        LIB.softmax(x, y, plan, plan.numel() - 1, cols)
        return y
