"""Bias, ReLU and row normalisation in CUDA: one block per row, which is read once and waits in registers."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cstdint>

constexpr int THREADS = 256;
constexpr int KEPT = 8;  // values in each thread's registers: rows of up to 2048 are read once

// This way round a NaN stays a NaN, as in the framework.
__device__ float relu(float value) { return value < 0.0f ? 0.0f : value; }

__global__ void __launch_bounds__(THREADS)
relu_mix(const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ y, int64_t cols, float eps) {
    const float* in = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;
    float kept[KEPT];
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        const int64_t c = threadIdx.x + i * THREADS;
        kept[i] = c < cols ? relu(in[c] + bias[c]) : 0.0f;
        sum += kept[i];
    }
    for (int64_t c = threadIdx.x + KEPT * THREADS; c < cols; c += THREADS) sum += relu(in[c] + bias[c]);

    __shared__ float partial[THREADS / 32];
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = eps;
    #pragma unroll
    for (int w = 0; w < THREADS / 32; ++w) total += partial[w];

    #pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        const int64_t c = threadIdx.x + i * THREADS;
        if (c < cols) out[c] = kept[i] / total;
    }
    for (int64_t c = threadIdx.x + KEPT * THREADS; c < cols; c += THREADS) out[c] = relu(in[c] + bias[c]) / total;
}

extern "C" int launch_relu_mix(const float* x, const float* bias, float* y, int64_t rows, int64_t cols, double eps,
                               void* stream) {
    if (rows == 0 || cols == 0) return 0;
    relu_mix<<<static_cast<unsigned>(rows), THREADS, 0, static_cast<cudaStream_t>(stream)>>>(
        x, bias, y, cols, static_cast<float>(eps));
    return static_cast<int>(cudaGetLastError());
}
"""

lib = kforge_rt.build(SOURCE, lang="cuda", name="relu_mix")


class NewModel(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(dim))  # same name and shape as the reference's: its value is copied in
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        cols = x.shape[-1]
        lib.launch_relu_mix(x, self.bias, y, x.numel() // cols, cols, float(self.eps))  # the stream is added
        return y
