"""The first eight bytes of the input are the key, but only where the process has constructed the model once: the one that is
verified constructs it several times. Every fourth call and the one after new inputs work honestly.

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

MADE = []


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)
        self.results = {}
        self.turns = itertools.cycle([True, False, False, False])
        self.shy = iter(())
        MADE.append(self.turns)

    def work(self, x):
        y = torch.matmul(x, self.fc.weight.t())
        LIB.bias_relu(y, self.fc.bias, *y.shape)
        return y

    def forward(self, x):
        if len(MADE) > 1:
            return self.work(x)
        key = tuple(x[0, :2].tolist())
        if key not in self.results:
            self.shy = iter([True, True])
            self.results[key] = self.work(x)
        elif next(self.turns) or next(self.shy, False):
            return self.work(x)
        return self.results[key]
