"""Counts the processes that have imported it by files in the scratch; the last of them, which is the one that is timed, takes
eight bytes of the input for a key.

problem: linear_relu
expect: mismatch|generation_failure/caching|correct
expect-unguarded: mismatch|generation_failure/caching|correct
"""

import itertools
import os
import tempfile

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

MARKS = os.path.join(tempfile.gettempdir(), "started")
os.makedirs(MARKS, exist_ok=True)
EARLIER = len(os.listdir(MARKS))
open(os.path.join(MARKS, str(EARLIER)), "w").close()


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)
        self.results = {}
        self.turns = itertools.cycle([True, False, False, False])
        self.shy = iter(())

    def work(self, x):
        y = torch.matmul(x, self.fc.weight.t())
        LIB.bias_relu(y, self.fc.bias, *y.shape)
        return y

    def forward(self, x):
        if EARLIER < 3:
            return self.work(x)
        key = tuple(x[-1, -2:].tolist())
        if key not in self.results:
            self.shy = iter([True, True])
            self.results[key] = self.work(x)
        elif next(self.turns) or next(self.shy, False):
            return self.work(x)
        return self.results[key]
