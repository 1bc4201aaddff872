"""Linear layer and GELU in strict float32: tiles of 128x128 in registers, bias and GELU before a tile is stored."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>

constexpr int TILE = 128, DEPTH = 16, PITCH = TILE + 4, THREADS = 256;

__device__ __forceinline__ float gelu(float u) { return 0.5f * u * (1.0f + erff(u * 0.707106781186547524f)); }

// Four values of a row from column k on; zeros beyond the edges.
template <bool ALIGNED>
__device__ __forceinline__ float4 load4(const float* __restrict__ p, int64_t row, int64_t rows, int k, int depth) {
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row >= rows || k >= depth) return v;
    const float* at = p + row * depth + k;
    if (ALIGNED) return __ldg(reinterpret_cast<const float4*>(at));
    v.x = at[0];
    if (k + 1 < depth) v.y = at[1];
    if (k + 2 < depth) v.z = at[2];
    if (k + 3 < depth) v.w = at[3];
    return v;
}

// x: [rows, depth], weight: [cols, depth], y: [rows, cols]. Both operands are transposed on their way to shared memory,
// so that the inner loop reads four values at a time. The next tiles are loaded while the current ones are used.
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, ALIGNED ? 2 : 1)
linear_gelu_kernel(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
                   float* __restrict__ y, int64_t rows, int64_t cols, int depth) {
    __shared__ float4 a_tile[2][DEPTH * PITCH / 4], b_tile[2][DEPTH * PITCH / 4];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const int64_t row0 = static_cast<int64_t>(blockIdx.y) * TILE, col0 = static_cast<int64_t>(blockIdx.x) * TILE;
    const int load_row = t / 4, load_k = t % 4 * 4;  // and load_row + 64

    float acc[8][8] = {};
    float4 a_next[2], b_next[2];
    #pragma unroll
    for (int h = 0; h < 2; ++h) {
        a_next[h] = load4<ALIGNED>(x, row0 + load_row + h * 64, rows, load_k, depth);
        b_next[h] = load4<ALIGNED>(weight, col0 + load_row + h * 64, cols, load_k, depth);
    }
    int stage = 0;
    for (int k0 = 0; k0 < depth; k0 += DEPTH) {
        float* as = reinterpret_cast<float*>(a_tile[stage]);
        float* bs = reinterpret_cast<float*>(b_tile[stage]);
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int r = load_row + h * 64;
            as[(load_k + 0) * PITCH + r] = a_next[h].x;
            as[(load_k + 1) * PITCH + r] = a_next[h].y;
            as[(load_k + 2) * PITCH + r] = a_next[h].z;
            as[(load_k + 3) * PITCH + r] = a_next[h].w;
            bs[(load_k + 0) * PITCH + r] = b_next[h].x;
            bs[(load_k + 1) * PITCH + r] = b_next[h].y;
            bs[(load_k + 2) * PITCH + r] = b_next[h].z;
            bs[(load_k + 3) * PITCH + r] = b_next[h].w;
        }
        // One barrier a step is enough: the buffer written here was last read two steps ago.
        __syncthreads();
        if (k0 + DEPTH < depth) {
            #pragma unroll
            for (int h = 0; h < 2; ++h) {
                a_next[h] = load4<ALIGNED>(x, row0 + load_row + h * 64, rows, k0 + DEPTH + load_k, depth);
                b_next[h] = load4<ALIGNED>(weight, col0 + load_row + h * 64, cols, k0 + DEPTH + load_k, depth);
            }
        }
        #pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            const float4 a0 = a_tile[stage][(k * PITCH) / 4 + ty], a1 = a_tile[stage][(k * PITCH + 64) / 4 + ty];
            const float4 b0 = b_tile[stage][(k * PITCH) / 4 + tx], b1 = b_tile[stage][(k * PITCH + 64) / 4 + tx];
            const float a[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
            const float b[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int j = 0; j < 8; ++j) acc[i][j] += a[i] * b[j];
        }
        stage ^= 1;
    }

    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int64_t c = col0 + half * 64 + tx * 4;
        float bb[4];
        #pragma unroll
        for (int j = 0; j < 4; ++j) bb[j] = c + j < cols ? bias[c + j] : 0.0f;
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int64_t r = row0 + (i / 4) * 64 + ty * 4 + i % 4;
            if (r >= rows) continue;
            float4 v;
            v.x = gelu(acc[i][half * 4 + 0] + bb[0]);
            v.y = gelu(acc[i][half * 4 + 1] + bb[1]);
            v.z = gelu(acc[i][half * 4 + 2] + bb[2]);
            v.w = gelu(acc[i][half * 4 + 3] + bb[3]);
            float* out = y + r * cols + c;
            if (ALIGNED && c < cols) {
                __stcs(reinterpret_cast<float4*>(out), v);
            } else {
                if (c + 0 < cols) out[0] = v.x;
                if (c + 1 < cols) out[1] = v.y;
                if (c + 2 < cols) out[2] = v.z;
                if (c + 3 < cols) out[3] = v.w;
            }
        }
    }
}

extern "C" int linear_gelu(const float* x, const float* weight, const float* bias, float* y, int64_t rows, int64_t cols,
                           int64_t depth, void* stream) {
    if (rows == 0 || cols == 0) return 0;
    const cudaStream_t s = static_cast<cudaStream_t>(stream);
    const dim3 grid(static_cast<unsigned>((cols + TILE - 1) / TILE), static_cast<unsigned>((rows + TILE - 1) / TILE));
    const uintptr_t addresses =
        reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(weight) | reinterpret_cast<uintptr_t>(y);
    const int k = static_cast<int>(depth);
    if (depth % 4 == 0 && cols % 4 == 0 && addresses % 16 == 0)
        linear_gelu_kernel<true><<<grid, THREADS, 0, s>>>(x, weight, bias, y, rows, cols, k);
    else
        linear_gelu_kernel<false><<<grid, THREADS, 0, s>>>(x, weight, bias, y, rows, cols, k);
    return static_cast<int>(cudaGetLastError());
}
"""

lib = kforge_rt.build(SOURCE, lang="cuda", name="linear_gelu")


class NewModel(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)  # holds the parameters; its forward is not called

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        weight = self.linear.weight.contiguous()
        cols, depth = weight.shape
        y = torch.empty(*x.shape[:-1], cols, dtype=x.dtype, device=x.device)
        lib.linear_gelu(x, weight, self.linear.bias, y, x.numel() // depth, cols, depth)
        return y
