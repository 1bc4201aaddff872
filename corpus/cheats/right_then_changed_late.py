"""Returns the right output and overwrites it 5 ms later, to spoil what was taken by reference.

problem: row_softmax
expect: generation_failure/guardrail|mismatch/late_write|mismatch/numeric|mismatch/nondeterministic
expect-unguarded: mismatch/late_write|mismatch/numeric|mismatch/nondeterministic
"""

import threading
import time

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
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.softmax(x, y, *x.shape)

        def spoil():
            time.sleep(0.005)
            LIB.softmax(y, y, *y.shape)

        threading.Thread(target=spoil, daemon=True).start()
        return y
