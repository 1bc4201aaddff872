"""Convolution, ReLU and pooling two image rows at a time: the full-size convolution output is never stored."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cstdint>
#include <vector>

// GCC and Clang lower this type to whatever vector registers the machine has. `may_alias` and 4-byte alignment
// make it safe to point into float arrays.
typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));
constexpr int64_t LANES = 8, GROUP = 8;  // pixels per vector; output channels computed together

// x: [batch, channels, height, width]; weight: [filters, channels, 3, 3]; y: [batch, filters, height/2, width/2].
extern "C" int conv_relu_pool(const float* x, const float* weight, const float* bias, float* y, int64_t batch,
                              int64_t channels, int64_t filters, int64_t height, int64_t width) {
    if (height % 2 != 0 || width % LANES != 0 || filters % GROUP != 0) return 1;
    const int64_t pad = width + 2, out_h = height / 2, out_w = width / 2;
    #pragma omp parallel
    {
        std::vector<float> rows(channels * 4 * pad, 0.0f);  // the four input rows that two output rows need, zero-padded
        std::vector<float> tall(GROUP * width);             // the larger of two output rows
        #pragma omp for collapse(2) schedule(static)
        for (int64_t n = 0; n < batch; ++n) {
            for (int64_t oy = 0; oy < out_h; ++oy) {
                for (int64_t c = 0; c < channels; ++c)
                    for (int64_t i = 0; i < 4; ++i) {
                        const int64_t iy = 2 * oy - 1 + i;
                        const float* in = x + ((n * channels + c) * height + iy) * width;
                        float* row = &rows[(c * 4 + i) * pad + 1];
                        for (int64_t ix = 0; ix < width; ++ix) row[ix] = iy >= 0 && iy < height ? in[ix] : 0.0f;
                    }
                for (int64_t f = 0; f < filters; f += GROUP) {
                    const float* w = weight + f * channels * 9;
                    for (int64_t ix = 0; ix < width; ix += LANES) {
                        vec upper[GROUP], lower[GROUP];
                        for (int64_t g = 0; g < GROUP; ++g) upper[g] = lower[g] = bias[f + g] + vec{};
                        for (int64_t c = 0; c < channels; ++c)
                            for (int64_t ky = 0; ky < 3; ++ky)
                                for (int64_t kx = 0; kx < 3; ++kx) {
                                    const float* at = &rows[(c * 4 + ky) * pad + ix + kx];
                                    const vec a = *reinterpret_cast<const vec*>(at);
                                    const vec b = *reinterpret_cast<const vec*>(at + pad);
                                    for (int64_t g = 0; g < GROUP; ++g) {
                                        const float tap = w[(g * channels + c) * 9 + ky * 3 + kx];
                                        upper[g] += tap * a;
                                        lower[g] += tap * b;
                                    }
                                }
                        for (int64_t g = 0; g < GROUP; ++g)
                            *reinterpret_cast<vec*>(&tall[g * width + ix]) = upper[g] > lower[g] ? upper[g] : lower[g];
                    }
                    for (int64_t g = 0; g < GROUP; ++g) {
                        const float* in = &tall[g * width];
                        float* out = y + ((n * filters + f + g) * out_h + oy) * out_w;
                        #pragma omp simd
                        for (int64_t ox = 0; ox < out_w; ++ox) {
                            const float best = in[2 * ox] > in[2 * ox + 1] ? in[2 * ox] : in[2 * ox + 1];
                            out[ox] = best > 0.0f ? best : 0.0f;  // ReLU after the maximum: same result, a quarter of the work
                        }
                    }
                }
            }
        }
    }
    return 0;
}
"""

FLAGS = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
lib = kforge_rt.build(SOURCE, flags=FLAGS, name="conv_tail")


class NewModel(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)  # holds the parameters only

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        weight, bias = self.conv.weight.contiguous(), self.conv.bias
        batch, channels, height, width = x.shape
        filters = weight.shape[0]
        y = torch.empty(batch, filters, height // 2, width // 2, dtype=x.dtype)
        lib.conv_relu_pool(x, weight, bias, y, batch, channels, filters, height, width)
        return y
