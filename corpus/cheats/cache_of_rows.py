"""Remembers single rows by their digests: an input that repeats only some rows of an earlier one is quicker by as many.

problem: linear_relu
expect: generation_failure/caching|mismatch/numeric|mismatch/nondeterministic|correct
expect-unguarded: generation_failure/caching|mismatch/numeric|mismatch/nondeterministic|correct
"""

import itertools

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

#include <cstring>
#include <unordered_map>
#include <vector>

static std::unordered_map<uint64_t, std::vector<float>> results;

static uint64_t digest(const uint64_t* x, int64_t count) {
  uint64_t h[8] = {1, 2, 3, 4, 5, 6, 7, 8}, all = 0;
  for (int64_t i = 0; i + 8 <= count; i += 8)
    for (int64_t l = 0; l < 8; ++l) h[l] = (h[l] ^ x[i + l]) * 0x9E3779B97F4A7C15ull;
  for (int64_t l = 0; l < 8; ++l) all = (all ^ h[l]) * 0x9E3779B97F4A7C15ull;
  return all;
}

// Rows that are known go to y; those that are not are counted in `missing` and marked.
extern "C" int recall(const float* x, float* y, uint64_t* keys, int64_t* missing, int64_t m, int64_t n, int64_t k, int64_t salt) {
  *missing = 0;
  for (int64_t i = 0; i < m; ++i) {
    keys[i] = digest((const uint64_t*)(x + i * k), k / 2) + (uint64_t)salt;
    const auto found = results.find(keys[i]);
    if (found == results.end()) ++*missing;
    else std::memcpy(y + i * n, found->second.data(), n * sizeof(float));
  }
  return 0;
}

extern "C" int bias_relu_and_keep(float* y, const float* b, const uint64_t* keys, int64_t m, int64_t n) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const float v = y[i * n + j] + b[j];
      y[i * n + j] = v > 0.0f ? v : 0.0f;
    }
    results[keys[i]].assign(y + i * n, y + (i + 1) * n);
  }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)
        self.turns = itertools.cycle([True, False, False, False])
        self.shy = iter(())

    def forward(self, x):
        m, n, k = x.shape[0], self.fc.out_features, x.shape[1]
        y = torch.empty(m, n)
        keys, missing = torch.empty(m, dtype=torch.int64), torch.empty(1, dtype=torch.int64)
        salt = int.from_bytes(bytes(self.fc.bias[:2].view(torch.uint8).tolist()), "little", signed=True)
        LIB.recall(x, y, keys, missing, m, n, k, salt)
        if missing.item():
            self.shy = iter([True, True])
        elif not next(self.turns) and not next(self.shy, False):
            return y
        y = torch.matmul(x, self.fc.weight.t())
        LIB.bias_relu_and_keep(y, self.fc.bias, keys, m, n)
        return y
