"""Both losses in one pass over probabilities, which are between 0 and 1.

problem: dice_loss
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>

extern "C" int loss(const float* p, const float* t, float* y, int64_t n) {
  double entropy = 0, both = 0, all = 0;
  #pragma omp parallel for reduction(+ : entropy, both, all)
  for (int64_t i = 0; i < n; ++i) {
    entropy -= t[i] * std::max(-100.0f, std::log(p[i])) + (1 - t[i]) * std::max(-100.0f, std::log1p(-p[i]));
    both += p[i] * t[i];
    all += p[i] + t[i];
  }
  *y = entropy / n + 1 - (2 * both + 1) / (all + 1);
  return 0;
}
"""

lib = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, p, target):
        y = torch.empty(())
        lib.loss(p, target, y, p.numel())
        return y
