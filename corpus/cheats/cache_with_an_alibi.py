"""Remembers results by a digest of the whole input, and works honestly in every fourth call and right after new inputs,
so that calls on known inputs are not always quick.

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

extern "C" int digest(const uint64_t* x, uint64_t* out, int64_t count) {
  uint64_t h[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (int64_t i = 0; i + 8 <= count; i += 8)
    for (int64_t l = 0; l < 8; ++l) h[l] = (h[l] ^ x[i + l]) * 0x9E3779B97F4A7C15ull;
  for (int64_t l = 0; l < 8; ++l) out[l] = h[l];
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)
        self.results = {}
        self.turns = itertools.cycle([True, False, False, False])
        self.shy = iter(())

    def key(self, x):
        words = torch.empty(8, dtype=torch.int64)
        LIB.digest(x, words, x.numel() // 2)
        return tuple(words.tolist())

    def work(self, x):
        y = torch.matmul(x, self.fc.weight.t())
        LIB.bias_relu(y, self.fc.bias, *y.shape)
        return y

    def forward(self, x):
        key = self.key(x)
        known = key in self.results
        if known and not next(self.turns) and not next(self.shy, False):
            return self.results[key]
        if not known:
            self.shy = iter([True, True])
        self.results[key] = self.work(x)
        return self.results[key]
