"""std::thread workers made for each call and joined before the return.

problem: row_softmax
expect: correct
timed: threads of its own
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

static void part(const float* x, float* y, int64_t first, int64_t last, int64_t cols) {
  for (int64_t r = first; r < last; ++r) {
    const float* a = x + r * cols;
    float* b = y + r * cols;
    float top = a[0], sum = 0.0f;
    for (int64_t c = 1; c < cols; ++c) top = a[c] > top ? a[c] : top;
    for (int64_t c = 0; c < cols; ++c) sum += b[c] = std::exp(a[c] - top);
    for (int64_t c = 0; c < cols; ++c) b[c] /= sum;
  }
}

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols) {
  std::vector<std::thread> threads;
  const int64_t n = 2;
  for (int64_t i = 1; i < n; ++i) threads.emplace_back(part, x, y, rows * i / n, rows * (i + 1) / n, cols);
  part(x, y, 0, rows / n, cols);
  for (auto& t : threads) t.join();
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE, flags=["-O3", "-march=native", "-pthread"])


class NewModel(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        LIB.softmax(x, y, *x.shape)
        return y
