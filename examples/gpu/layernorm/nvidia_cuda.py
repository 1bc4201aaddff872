"""Residual add and LayerNorm in CUDA: the summed row stays in registers, mean and variance are exact two-step sums."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>

constexpr int THREADS = 256;

// `part` is written anew by every call, hence a buffer of the caller's for each.
__device__ __forceinline__ float block_sum(float v, float* part) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
    if (lane == 0) part[warp] = v;
    __syncthreads();
    v = part[lane % (THREADS / 32)];
    for (int o = THREADS / 64; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

template <int N>
__global__ void __launch_bounds__(THREADS)
add_norm_registers(const float4* __restrict__ x, const float4* __restrict__ r, const float4* __restrict__ gain,
                   const float4* __restrict__ bias, float4* __restrict__ y, int quads, float eps) {
    __shared__ float parts[2][THREADS / 32];
    const int64_t row = static_cast<int64_t>(blockIdx.x) * quads;
    float4 v[N];
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        const int at = i * THREADS + threadIdx.x;
        v[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (at < quads) {
            const float4 a = __ldcs(x + row + at), b = __ldcs(r + row + at);
            v[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
        }
    }
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < N; ++i) sum += (v[i].x + v[i].y) + (v[i].z + v[i].w);
    const float mean = block_sum(sum, parts[0]) / (4.0f * quads);
    float squares = 0.0f;
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        if (i * THREADS + threadIdx.x < quads) {
            v[i] = make_float4(v[i].x - mean, v[i].y - mean, v[i].z - mean, v[i].w - mean);
            squares += (v[i].x * v[i].x + v[i].y * v[i].y) + (v[i].z * v[i].z + v[i].w * v[i].w);
        }
    }
    const float scale = 1.0f / sqrtf(block_sum(squares, parts[1]) / (4.0f * quads) + eps);
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        const int at = i * THREADS + threadIdx.x;
        if (at < quads) {
            const float4 g = __ldg(gain + at), b = __ldg(bias + at);
            __stcs(y + row + at, make_float4(v[i].x * scale * g.x + b.x, v[i].y * scale * g.y + b.y,
                                             v[i].z * scale * g.z + b.z, v[i].w * scale * g.w + b.w));
        }
    }
}

// Any row length: three trips, of which the last two mostly hit the caches.
__global__ void __launch_bounds__(THREADS)
add_norm_any(const float* __restrict__ x, const float* __restrict__ r, const float* __restrict__ gain,
             const float* __restrict__ bias, float* __restrict__ y, int64_t cols, float eps) {
    __shared__ float parts[2][THREADS / 32];
    const int64_t row = blockIdx.x * cols;
    float sum = 0.0f, squares = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS) sum += x[row + c] + r[row + c];
    const float mean = block_sum(sum, parts[0]) / cols;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS) {
        const float d = x[row + c] + r[row + c] - mean;
        squares += d * d;
    }
    const float scale = 1.0f / sqrtf(block_sum(squares, parts[1]) / cols + eps);
    for (int64_t c = threadIdx.x; c < cols; c += THREADS)
        y[row + c] = (x[row + c] + r[row + c] - mean) * scale * gain[c] + bias[c];
}

extern "C" int add_norm(const float* x, const float* r, const float* gain, const float* bias, float* y, int64_t rows,
                        int64_t cols, double eps, void* stream) {
    if (rows == 0 || cols == 0) return 0;
    const cudaStream_t s = static_cast<cudaStream_t>(stream);
    const uintptr_t addresses = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(r) |
                                reinterpret_cast<uintptr_t>(gain) | reinterpret_cast<uintptr_t>(bias) |
                                reinterpret_cast<uintptr_t>(y);
    const bool aligned = cols % 4 == 0 && addresses % 16 == 0;
    const unsigned grid = static_cast<unsigned>(rows);
    const int quads = static_cast<int>(cols / 4);
    const float e = static_cast<float>(eps);
    const float4 *x4 = reinterpret_cast<const float4*>(x), *r4 = reinterpret_cast<const float4*>(r);
    const float4 *g4 = reinterpret_cast<const float4*>(gain), *b4 = reinterpret_cast<const float4*>(bias);
    float4* y4 = reinterpret_cast<float4*>(y);
    if (aligned && quads <= THREADS) add_norm_registers<1><<<grid, THREADS, 0, s>>>(x4, r4, g4, b4, y4, quads, e);
    else if (aligned && quads <= THREADS * 2) add_norm_registers<2><<<grid, THREADS, 0, s>>>(x4, r4, g4, b4, y4, quads, e);
    else if (aligned && quads <= THREADS * 4) add_norm_registers<4><<<grid, THREADS, 0, s>>>(x4, r4, g4, b4, y4, quads, e);
    else if (aligned && quads <= THREADS * 8) add_norm_registers<8><<<grid, THREADS, 0, s>>>(x4, r4, g4, b4, y4, quads, e);
    else add_norm_any<<<grid, THREADS, 0, s>>>(x, r, gain, bias, y, cols, e);
    return static_cast<int>(cudaGetLastError());
}
"""

lib = kforge_rt.build(SOURCE, lang="cuda", name="add_norm")


class NewModel(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)  # holds the parameters; its forward is not called

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        x, residual = x.contiguous(), residual.contiguous()
        y = torch.empty_like(x)
        cols = x.shape[-1]
        lib.add_norm(x, residual, self.norm.weight, self.norm.bias, y, x.numel() // cols, cols, self.norm.eps)
        return y
