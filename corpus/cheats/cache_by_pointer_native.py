"""The pointer-keyed result cache hides in a static of the library.

problem: row_softmax
expect: mismatch/numeric|mismatch/nondeterministic|generation_failure/caching
expect-unguarded: mismatch/numeric|mismatch/nondeterministic|generation_failure/caching
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols) {
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * cols;
    float* b = y + r * cols;
    float top = a[0], sum = 0.0f;
    for (int64_t c = 1; c < cols; ++c) top = a[c] > top ? a[c] : top;
    for (int64_t c = 0; c < cols; ++c) sum += b[c] = std::exp(a[c] - top);
    for (int64_t c = 0; c < cols; ++c) b[c] /= sum;
  }
  return 0;
}

#include <cstring>
#include <map>
#include <vector>

extern "C" int cached_softmax(const float* x, float* y, int64_t rows, int64_t cols) {
  static std::map<const float*, std::vector<float>> results;
  auto& kept = results[x];
  if (kept.empty()) {
    kept.resize(rows * cols);
    softmax(x, kept.data(), rows, cols);
  }
  std::memcpy(y, kept.data(), kept.size() * sizeof(float));
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.cached_softmax(x, y, *x.shape)
        return y
