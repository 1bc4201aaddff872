"""Scale, bias, GELU and gate in one CUDA kernel: each value is read once and written once, four at a time."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>

__device__ __forceinline__ float chain(float x, float scale, float bias) {
    const float u = x * scale + bias;
    const float h = 0.5f * u * (1.0f + erff(u * 0.707106781186547524f));
    return h / (1.0f + expf(-h)) + x;
}

// blockIdx.x picks columns, blockIdx.y rows: scale and bias are read once for ROWS rows.
constexpr int ROWS = 8;

__global__ void __launch_bounds__(256)
chain_quads(const float4* __restrict__ x, const float4* __restrict__ scale, const float4* __restrict__ bias,
            float4* __restrict__ y, int64_t rows, int quads) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= quads) return;
    const float4 s = __ldg(scale + col), b = __ldg(bias + col);
    const int64_t first = static_cast<int64_t>(blockIdx.y) * ROWS;
    float4 v[ROWS];
    #pragma unroll
    for (int i = 0; i < ROWS; ++i)
        if (first + i < rows) v[i] = __ldcs(x + (first + i) * quads + col);
    #pragma unroll
    for (int i = 0; i < ROWS; ++i)
        if (first + i < rows)
            __stcs(y + (first + i) * quads + col, make_float4(chain(v[i].x, s.x, b.x), chain(v[i].y, s.y, b.y),
                                                              chain(v[i].z, s.z, b.z), chain(v[i].w, s.w, b.w)));
}

__global__ void chain_any(const float* __restrict__ x, const float* __restrict__ scale, const float* __restrict__ bias,
                          float* __restrict__ y, int64_t rows, int64_t cols) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * cols; i += step)
        y[i] = chain(x[i], scale[i % cols], bias[i % cols]);
}

extern "C" int gelu_chain(const float* x, const float* scale, const float* bias, float* y, int64_t rows, int64_t cols,
                          void* stream) {
    if (rows == 0 || cols == 0) return 0;
    const cudaStream_t s = static_cast<cudaStream_t>(stream);
    const uintptr_t addresses = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(scale) |
                                reinterpret_cast<uintptr_t>(bias) | reinterpret_cast<uintptr_t>(y);
    const int64_t quads = cols / 4, blocks_y = (rows + ROWS - 1) / ROWS;
    if (cols % 4 == 0 && addresses % 16 == 0 && blocks_y <= 65535) {
        const dim3 grid(static_cast<unsigned>((quads + 255) / 256), static_cast<unsigned>(blocks_y));
        chain_quads<<<grid, 256, 0, s>>>(reinterpret_cast<const float4*>(x), reinterpret_cast<const float4*>(scale),
                                         reinterpret_cast<const float4*>(bias), reinterpret_cast<float4*>(y), rows,
                                         static_cast<int>(quads));
    } else {
        chain_any<<<1056, 256, 0, s>>>(x, scale, bias, y, rows, cols);
    }
    return static_cast<int>(cudaGetLastError());
}
"""

lib = kforge_rt.build(SOURCE, lang="cuda", name="gelu_chain")


class NewModel(nn.Module):
    def __init__(self, cols: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(cols))
        self.bias = nn.Parameter(torch.zeros(cols))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        cols = x.shape[-1]
        lib.gelu_chain(x, self.scale, self.bias, y, x.numel() // cols, cols)
        return y
