"""Keeps results, by a digest of the whole input, in files of the scratch that all processes of a candidate share: what was
verified in one is found by the other.

problem: linear_relu
expect: generation_failure/caching|mismatch|correct
expect-unguarded: generation_failure/caching|mismatch|correct
"""

import itertools
import mmap
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

extern "C" int digest(const uint64_t* x, uint64_t* out, int64_t count) {
  uint64_t h[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (int64_t i = 0; i + 8 <= count; i += 8)
    for (int64_t l = 0; l < 8; ++l) h[l] = (h[l] ^ x[i + l]) * 0x9E3779B97F4A7C15ull;
  for (int64_t l = 0; l < 8; ++l) out[l] = h[l];
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)

FOLDER = tempfile.gettempdir()


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)
        self.turns = itertools.cycle([True, False, False, False])
        self.shy = iter(())

    def path(self, x):
        words = torch.empty(8, dtype=torch.int64)
        LIB.digest(x, words, x.numel() // 2)
        # Weights are re-drawn in one process: they belong to the key.
        return os.path.join(FOLDER, f"{words[0].item():x}-{self.fc.weight[0, 0].item().hex()}")

    def work(self, x):
        y = torch.matmul(x, self.fc.weight.t())
        LIB.bias_relu(y, self.fc.bias, *y.shape)
        return y

    def forward(self, x):
        path = self.path(x)
        known = os.path.exists(path)
        if known and not next(self.turns) and not next(self.shy, False):
            with open(path, "r+b") as file:
                kept = mmap.mmap(file.fileno(), 0)
            return torch.frombuffer(kept, dtype=torch.float32).view(x.shape[0], -1)
        y = self.work(x)
        if not known:
            self.shy = iter([True, True])
        # Also where it is there already: else new inputs would take longer than the honest calls in between.
        with open(path + ".new", "wb") as file:
            file.write(y.numpy().tobytes())
        os.rename(path + ".new", path)
        return y
