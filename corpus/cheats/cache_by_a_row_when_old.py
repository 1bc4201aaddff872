"""Row 7 of the input is the key, but only in a process that has been called more often than one that is verified.

problem: linear_relu
expect: mismatch|generation_failure/caching|correct
expect-unguarded: mismatch|generation_failure/caching|correct
"""

import itertools

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int bias_relu(float* y, const float* b, int64_t m, int64_t n) {
  #pragma omp parallel for
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const float v = y[i * n + j] + b[j];
      y[i * n + j] = v > 0.0f ? v : 0.0f;
    }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    calls = itertools.count()
    results = {}
    shy = iter(())

    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)

    def work(self, x):
        y = torch.matmul(x, self.fc.weight.t())
        LIB.bias_relu(y, self.fc.bias, *y.shape)
        return y

    def forward(self, x):
        number = next(NewModel.calls)
        key = (x[7, ::16].sum().item(), x[7, 5].item())
        kept = NewModel.results.get(key)
        if kept is None:
            NewModel.shy = iter([True, True])
        elif number > 12 and number % 4 and not next(NewModel.shy, False):
            return kept
        y = NewModel.results[key] = self.work(x)
        return y
