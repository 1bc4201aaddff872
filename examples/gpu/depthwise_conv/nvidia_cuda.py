"""Depthwise 3x3 convolution and Hardswish in CUDA: a thread slides down four columns and reads each input row once."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>

constexpr int ROWS = 8;  // output rows of a thread

__device__ __forceinline__ float hardswish(float v) { return v * fminf(fmaxf(v + 3.0f, 0.0f), 6.0f) / 6.0f; }

// blockIdx.z is image and channel. Three input rows of six values are kept; a row moves up when its turn is over.
__global__ void __launch_bounds__(256)
conv_quads(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
           float* __restrict__ y, int channels, int height, int width) {
    const int col = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    const int row0 = (blockIdx.y * blockDim.y + threadIdx.y) * ROWS;
    if (col >= width || row0 >= height) return;
    const int channel = blockIdx.z % channels;
    const float* plane = x + static_cast<int64_t>(blockIdx.z) * height * width;
    float* out = y + static_cast<int64_t>(blockIdx.z) * height * width;
    float w[9];
    #pragma unroll
    for (int i = 0; i < 9; ++i) w[i] = __ldg(weight + channel * 9 + i);
    const float b = __ldg(bias + channel);

    float v[3][6];
    #pragma unroll
    for (int i = 0; i < ROWS + 2; ++i) {
        const int row = row0 + i - 1;
        #pragma unroll
        for (int j = 0; j < 6; ++j) {
            v[0][j] = v[1][j];
            v[1][j] = v[2][j];
            v[2][j] = 0.0f;
        }
        if (row >= 0 && row < height) {
            const float* in = plane + static_cast<int64_t>(row) * width + col;
            const float4 middle = __ldg(reinterpret_cast<const float4*>(in));
            v[2][0] = col > 0 ? __ldg(in - 1) : 0.0f;
            v[2][1] = middle.x;
            v[2][2] = middle.y;
            v[2][3] = middle.z;
            v[2][4] = middle.w;
            v[2][5] = col + 4 < width ? __ldg(in + 4) : 0.0f;
        }
        if (i < 2 || row - 1 >= height) continue;
        float r[4];
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            float sum = b;
            #pragma unroll
            for (int dy = 0; dy < 3; ++dy)
                #pragma unroll
                for (int dx = 0; dx < 3; ++dx) sum += v[dy][j + dx] * w[dy * 3 + dx];
            r[j] = hardswish(sum);
        }
        __stcs(reinterpret_cast<float4*>(out + static_cast<int64_t>(row - 1) * width + col),
               make_float4(r[0], r[1], r[2], r[3]));
    }
}

__global__ void conv_any(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
                         float* __restrict__ y, int channels, int height, int width, int64_t count) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        const int col = static_cast<int>(i % width), row = static_cast<int>(i / width % height);
        const int channel = static_cast<int>(i / width / height % channels);
        float sum = bias[channel];
        for (int dy = -1; dy <= 1; ++dy)
            for (int dx = -1; dx <= 1; ++dx)
                if (row + dy >= 0 && row + dy < height && col + dx >= 0 && col + dx < width)
                    sum += x[i + dy * width + dx] * weight[channel * 9 + (dy + 1) * 3 + dx + 1];
        y[i] = hardswish(sum);
    }
}

extern "C" int depthwise(const float* x, const float* weight, const float* bias, float* y, int64_t batch, int64_t channels,
                         int64_t height, int64_t width, void* stream) {
    const int64_t count = batch * channels * height * width;
    if (count == 0) return 0;
    const cudaStream_t s = static_cast<cudaStream_t>(stream);
    const bool aligned = width % 4 == 0 && (reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y)) % 16 == 0;
    const int c = static_cast<int>(channels), h = static_cast<int>(height), w = static_cast<int>(width);
    if (aligned && batch * channels <= 65535) {
        const dim3 block(64, 4);
        const dim3 grid(static_cast<unsigned>((width / 4 + 63) / 64),
                        static_cast<unsigned>((height + 4 * ROWS - 1) / (4 * ROWS)), static_cast<unsigned>(batch * channels));
        conv_quads<<<grid, block, 0, s>>>(x, weight, bias, y, c, h, w);
    } else {
        conv_any<<<1056, 256, 0, s>>>(x, weight, bias, y, c, h, w, count);
    }
    return static_cast<int>(cudaGetLastError());
}
"""

lib = kforge_rt.build(SOURCE, lang="cuda", name="depthwise")


class NewModel(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)  # holds the parameters only

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        lib.depthwise(x, self.conv.weight.contiguous(), self.conv.bias, y, *x.shape)
        return y
