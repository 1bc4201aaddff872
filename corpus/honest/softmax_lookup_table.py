"""The exponential comes from a table of powers of two that is built at import, and a short polynomial.

problem: row_softmax
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>

static inline double table_exp(double v, const double* table) {
  const double t = v * 1.4426950408889634 * 256.0;  // v <= 0
  if (t < -256.0 * 1000.0) return 0.0;
  const double whole = std::floor(t);
  const int64_t n = (int64_t)whole;
  const double f = (t - whole) * (0.6931471805599453 / 256.0);
  return std::ldexp(table[n & 255], (int)(n >> 8)) * (1.0 + f * (1.0 + f * (0.5 + f / 6.0)));
}

extern "C" int softmax(const float* x, float* y, const double* table, int64_t rows, int64_t cols) {
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * cols;
    float top = a[0];
    for (int64_t c = 1; c < cols; ++c) top = a[c] > top ? a[c] : top;
    double sum = 0.0;
    for (int64_t c = 0; c < cols; ++c) {
      const double e = table_exp((double)a[c] - top, table);
      y[r * cols + c] = (float)e;
      sum += e;
    }
    const float scale = (float)(1.0 / sum);
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] *= scale;
  }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)
TABLE = torch.exp2(torch.arange(256, dtype=torch.float64) / 256)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.softmax(x, y, TABLE, *x.shape)
        return y
