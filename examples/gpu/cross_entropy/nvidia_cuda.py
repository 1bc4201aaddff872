"""Cross-entropy in CUDA: maximum and sum of a row in one trip to memory, then a small kernel for the mean."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>

constexpr int THREADS = 512, AHEAD = 4;
constexpr int64_t IGNORED = -100;  // PyTorch's default for a target that does not count

// A running maximum and the sum of the exponentials below it.
struct Running {
    float top, sum;
};

__device__ __forceinline__ Running merge(Running a, Running b) {
    const float top = fmaxf(a.top, b.top);
    if (top == -INFINITY) return {top, a.sum + b.sum};
    return {top, a.sum * expf(a.top - top) + b.sum * expf(b.top - top)};
}

__device__ __forceinline__ Running add(Running r, float v) {
    if (v > r.top) return {v, r.sum * expf(r.top - v) + 1.0f};
    if (v == -INFINITY) return r;
    return {r.top, r.sum + expf(v - r.top)};
}

__device__ __forceinline__ Running add(Running r, float4 v) {
    const float high = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
    if (high > r.top) r = {high, r.sum * expf(r.top - high)};
    if (r.top == -INFINITY) return r;
    const float more = (expf(v.x - r.top) + expf(v.y - r.top)) + (expf(v.z - r.top) + expf(v.w - r.top));
    return {r.top, r.sum + more};
}

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS)
row_losses(const float* __restrict__ logits, const int64_t* __restrict__ targets, float* __restrict__ losses, int classes) {
    __shared__ float tops[THREADS / 32], sums[THREADS / 32];
    const float* row = logits + static_cast<int64_t>(blockIdx.x) * classes;
    Running r = {-INFINITY, 0.0f};
    if (ALIGNED) {
        const float4* quads = reinterpret_cast<const float4*>(row);
        const float low = -INFINITY;
        for (int first = threadIdx.x; first < classes / 4; first += THREADS * AHEAD) {
            float4 v[AHEAD];
            #pragma unroll
            for (int i = 0; i < AHEAD; ++i) {
                const int at = first + i * THREADS;
                v[i] = at < classes / 4 ? __ldcs(quads + at) : make_float4(low, low, low, low);
            }
            #pragma unroll
            for (int i = 0; i < AHEAD; ++i) r = add(r, v[i]);
        }
    } else {
        for (int c = threadIdx.x; c < classes; c += THREADS) r = add(r, row[c]);
    }
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int o = 16; o > 0; o /= 2) {
        const float top = __shfl_xor_sync(0xffffffffu, r.top, o), sum = __shfl_xor_sync(0xffffffffu, r.sum, o);
        r = merge(r, {top, sum});
    }
    if (lane == 0) {
        tops[warp] = r.top;
        sums[warp] = r.sum;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int w = 1; w < THREADS / 32; ++w) r = merge(r, {tops[w], sums[w]});
    const int64_t target = targets[blockIdx.x];
    const bool counts = target >= 0 && target < classes;
    losses[blockIdx.x] = counts ? logf(r.sum) + (r.top - row[target]) : target == IGNORED ? 0.0f : NAN;
}

__global__ void __launch_bounds__(1024)
mean_loss(const float* __restrict__ losses, const int64_t* __restrict__ targets, float* __restrict__ mean, int64_t rows) {
    __shared__ float sums[32], counts[32];
    float sum = 0.0f, count = 0.0f;
    for (int64_t i = threadIdx.x; i < rows; i += 1024) {
        sum += losses[i];
        count += targets[i] == IGNORED ? 0.0f : 1.0f;
    }
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int o = 16; o > 0; o /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, o);
        count += __shfl_xor_sync(0xffffffffu, count, o);
    }
    if (lane == 0) {
        sums[warp] = sum;
        counts[warp] = count;
    }
    __syncthreads();
    if (warp != 0) return;
    sum = sums[lane];
    count = counts[lane];
    for (int o = 16; o > 0; o /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, o);
        count += __shfl_xor_sync(0xffffffffu, count, o);
    }
    if (lane == 0) *mean = sum / count;
}

extern "C" int cross_entropy(const float* logits, const int64_t* targets, float* losses, float* mean, int64_t rows,
                             int64_t classes, void* stream) {
    const cudaStream_t s = static_cast<cudaStream_t>(stream);
    const unsigned grid = static_cast<unsigned>(rows);
    const int n = static_cast<int>(classes);
    if (classes % 4 == 0 && reinterpret_cast<uintptr_t>(logits) % 16 == 0)
        row_losses<true><<<grid, THREADS, 0, s>>>(logits, targets, losses, n);
    else
        row_losses<false><<<grid, THREADS, 0, s>>>(logits, targets, losses, n);
    mean_loss<<<1, 1024, 0, s>>>(losses, targets, mean, rows);
    return static_cast<int>(cudaGetLastError());
}
"""

lib = kforge_rt.build(SOURCE, lang="cuda", name="cross_entropy")


class NewModel(nn.Module):
    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits, targets = logits.contiguous(), targets.contiguous()
        rows, classes = logits.shape
        losses = torch.empty(rows, dtype=logits.dtype, device=logits.device)
        mean = torch.empty((), dtype=logits.dtype, device=logits.device)
        lib.cross_entropy(logits, targets, losses, mean, rows, classes)
        return mean
