"""Normalises by the batch and never writes the running statistics.

problem: batch_norm_train
expect: mismatch
expect-unguarded: mismatch
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <vector>

extern "C" int batch_norm(const float* x, const float* gain, const float* bias, float* y, float* mean, float* var, int64_t rows,
                          int64_t cols) {
  std::vector<double> sums(cols), squares(cols);
  double *s = sums.data(), *q = squares.data();
  #pragma omp parallel for reduction(+ : s[:cols], q[:cols])
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const double v = x[r * cols + c];
      s[c] += v;
      q[c] += v * v;
    }
  std::vector<float> scale(cols), shift(cols);
  for (int64_t c = 0; c < cols; ++c) {
    const double m = s[c] / rows, variance = q[c] / rows - m * m;
    mean[c] = (float)m;
    var[c] = (float)(variance * rows / (rows - 1));
    scale[c] = (float)(gain[c] / std::sqrt(variance + 1e-5));
    shift[c] = (float)(bias[c] - m * scale[c]);
  }
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = x[r * cols + c] * scale[c] + shift[c];
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(features)

    def forward(self, x):
        norm = self.norm
        y = torch.empty_like(x)
        mean, var = torch.empty_like(norm.running_mean), torch.empty_like(norm.running_var)
        LIB.batch_norm(x, norm.weight, norm.bias, y, mean, var, *x.shape)
        return y
