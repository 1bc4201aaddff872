"""Winograd's F(4x4, 3x3) in single precision: a quarter of the products, and single elements that round more than most.

problem: conv3x3
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <algorithm>
#include <cstdint>
#include <vector>

// With the points 0, 1, -1, 2, -2 and infinity.
static const float G[6][3] = {{1.0f / 4, 0, 0}, {-1.0f / 6, -1.0f / 6, -1.0f / 6}, {-1.0f / 6, 1.0f / 6, -1.0f / 6},
                              {1.0f / 24, 1.0f / 12, 1.0f / 6}, {1.0f / 24, -1.0f / 12, 1.0f / 6}, {0, 0, 1}};
static const float BT[6][6] = {{4, 0, -5, 0, 1, 0}, {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0},
                               {0, -2, -1, 2, 1, 0}, {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}};
static const float AT[4][6] = {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}};

// t x t^T for a matrix x of n x n and a transform t of m x n.
template <int m, int n>
static void both_sides(const float (&t)[m][n], const float* x, float* y) {
  float half[m * n];
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int k = 0; k < n; ++k) sum += t[i][k] * x[k * n + j];
      half[i * n + j] = sum;
    }
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < m; ++j) {
      float sum = 0;
      for (int k = 0; k < n; ++k) sum += half[i * n + k] * t[j][k];
      y[i * m + j] = sum;
    }
}

extern "C" int winograd(const float* x, const float* w, float* y, int64_t batch, int64_t in, int64_t out, int64_t h, int64_t v) {
  std::vector<float> kernels(36 * out * in);  // by place, then by output channel
  for (int64_t f = 0; f < out * in; ++f) {
    float u[36];
    both_sides(G, w + f * 9, u);
    for (int p = 0; p < 36; ++p) kernels[p * out * in + f] = u[p];
  }
  const int64_t rows = (h + 3) / 4, columns = (v + 3) / 4;
  #pragma omp parallel for collapse(2)
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<float> tile(36 * in);
      for (int64_t c = 0; c < columns; ++c) {
        for (int64_t k = 0; k < in; ++k) {
          float d[36], z[36];
          for (int64_t i = 0; i < 6; ++i)
            for (int64_t j = 0; j < 6; ++j) {
              const int64_t a = r * 4 + i - 1, b = c * 4 + j - 1;
              d[i * 6 + j] = a >= 0 && a < h && b >= 0 && b < v ? x[((n * in + k) * h + a) * v + b] : 0.0f;
            }
          both_sides(BT, d, z);
          for (int p = 0; p < 36; ++p) tile[p * in + k] = z[p];
        }
        for (int64_t o = 0; o < out; ++o) {
          float m[36], q[16];
          for (int p = 0; p < 36; ++p) {
            const float* a = &kernels[(p * out + o) * in];
            const float* b = &tile[p * in];
            float sum = 0;
            #pragma omp simd reduction(+ : sum)
            for (int64_t k = 0; k < in; ++k) sum += a[k] * b[k];
            m[p] = sum;
          }
          both_sides(AT, m, q);
          for (int64_t i = 0; i < std::min<int64_t>(4, h - r * 4); ++i)
            for (int64_t j = 0; j < std::min<int64_t>(4, v - c * 4); ++j)
              y[((n * out + o) * h + r * 4 + i) * v + c * 4 + j] = q[i * 4 + j];
        }
      }
    }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = torch.nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)

    def forward(self, x):
        n, c, h, w = x.shape
        out = self.conv.out_channels
        y = torch.empty(n, out, h, w)
        LIB.winograd(x, self.conv.weight, y, n, c, out, h, w)
        return y
