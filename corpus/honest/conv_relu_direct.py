"""Direct convolution fused with bias and ReLU.

problem: conv_relu
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int conv_relu(const float* x, const float* w, const float* b, float* y, int64_t batch, int64_t in, int64_t out,
                         int64_t h, int64_t v) {
  #pragma omp parallel for collapse(2)
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t o = 0; o < out; ++o) {
      float* plane = y + (n * out + o) * h * v;
      for (int64_t i = 0; i < h * v; ++i) plane[i] = b[o];
      for (int64_t c = 0; c < in; ++c)
        for (int64_t t = 0; t < 9; ++t) {
          const float k = w[(o * in + c) * 9 + t];
          const int64_t di = t / 3 - 1, dj = t % 3 - 1;
          for (int64_t i = di < 0 ? 1 : 0; i < (di > 0 ? h - 1 : h); ++i)
            for (int64_t j = dj < 0 ? 1 : 0; j < (dj > 0 ? v - 1 : v); ++j)
              plane[i * v + j] += k * x[((n * in + c) * h + i + di) * v + j + dj];
        }
      for (int64_t i = 0; i < h * v; ++i) plane[i] = plane[i] > 0.0f ? plane[i] : 0.0f;
    }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = torch.nn.Conv2d(in_channels, out_channels, 3, padding=1)

    def forward(self, x):
        n, c, h, w = x.shape
        out = self.conv.out_channels
        y = torch.empty(n, out, h, w)
        LIB.conv_relu(x, self.conv.weight, self.conv.bias, y, n, c, out, h, w)
        return y
