"""The kernel of nvidia_cuda.py as a PyTorch extension, for candidates written as for KernelBench (`ModelNew`, load_inline)."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>

// One half-warp per row and group: the group is read once, stays in registers, and is written in place.
constexpr int LANES = 16, N = 4;  // groups of up to LANES * N * 4 values

__device__ __forceinline__ float swish(float v) { return v / (1.0f + expf(-v)); }

__device__ __forceinline__ float tail(float v, float gain, float bias, float weight) {
    return swish(swish(v * gain + bias) * weight);
}

__device__ __forceinline__ float lanes_sum(float v) {
    for (int o = LANES / 2; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

__global__ void __launch_bounds__(256)
norm_tail_registers(float4* __restrict__ h, const float4* __restrict__ gain, const float4* __restrict__ bias,
                    const float4* __restrict__ weight, int64_t pairs, int groups, int quads, float eps) {
    const int64_t pair = static_cast<int64_t>(blockIdx.x) * (256 / LANES) + threadIdx.x / LANES;
    const int lane = threadIdx.x % LANES, group = static_cast<int>(pair % groups);
    const bool inside = pair < pairs;  // the lanes beyond the end still take part in the sums
    float4* row = h + pair * quads;
    float4 v[N];
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        const int at = i * LANES + lane;
        v[i] = inside && at < quads ? row[at] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        sum += (v[i].x + v[i].y) + (v[i].z + v[i].w);
    }
    const float mean = lanes_sum(sum) / (4.0f * quads);
    float squares = 0.0f;
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        if (i * LANES + lane < quads) {
            v[i] = make_float4(v[i].x - mean, v[i].y - mean, v[i].z - mean, v[i].w - mean);
            squares += (v[i].x * v[i].x + v[i].y * v[i].y) + (v[i].z * v[i].z + v[i].w * v[i].w);
        }
    }
    const float scale = 1.0f / sqrtf(lanes_sum(squares) / (4.0f * quads) + eps);
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        const int at = i * LANES + lane;
        if (inside && at < quads) {
            const float4 g = __ldg(gain + group * quads + at), b = __ldg(bias + group * quads + at);
            const float4 w = __ldg(weight + group * quads + at);
            row[at] = make_float4(tail(v[i].x * scale, g.x, b.x, w.x), tail(v[i].y * scale, g.y, b.y, w.y),
                                  tail(v[i].z * scale, g.z, b.z, w.z), tail(v[i].w * scale, g.w, b.w, w.w));
        }
    }
}

// Groups of any size: one warp, three trips.
__global__ void __launch_bounds__(256)
norm_tail_any(float* __restrict__ h, const float* __restrict__ gain, const float* __restrict__ bias,
              const float* __restrict__ weight, int64_t pairs, int groups, int size, float eps) {
    const int64_t pair = static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
    if (pair >= pairs) return;
    const int lane = threadIdx.x % 32, first = static_cast<int>(pair % groups) * size;
    float* row = h + pair * size;
    float sum = 0.0f, squares = 0.0f;
    for (int c = lane; c < size; c += 32) sum += row[c];
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    const float mean = sum / size;
    for (int c = lane; c < size; c += 32) squares += (row[c] - mean) * (row[c] - mean);
    for (int o = 16; o > 0; o /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, o);
    const float scale = 1.0f / sqrtf(squares / size + eps);
    for (int c = lane; c < size; c += 32)
        row[c] = tail((row[c] - mean) * scale, gain[first + c], bias[first + c], weight[first + c]);
}

static int launch_norm_tail(float* h, const float* gain, const float* bias, const float* weight, int64_t rows,
                            int64_t cols, int64_t groups, double eps, cudaStream_t s) {
    if (rows == 0 || cols == 0) return 0;
    const int64_t size = cols / groups, pairs = rows * groups;
    const uintptr_t addresses = reinterpret_cast<uintptr_t>(h) | reinterpret_cast<uintptr_t>(gain) |
                                reinterpret_cast<uintptr_t>(bias) | reinterpret_cast<uintptr_t>(weight);
    const int g = static_cast<int>(groups);
    const float e = static_cast<float>(eps);
    if (size % 4 == 0 && size <= LANES * N * 4 && addresses % 16 == 0) {
        const unsigned grid = static_cast<unsigned>((pairs + 256 / LANES - 1) / (256 / LANES));
        norm_tail_registers<<<grid, 256, 0, s>>>(
            reinterpret_cast<float4*>(h), reinterpret_cast<const float4*>(gain), reinterpret_cast<const float4*>(bias),
            reinterpret_cast<const float4*>(weight), pairs, g, static_cast<int>(size / 4), e);
    } else {
        const unsigned grid = static_cast<unsigned>((pairs + 7) / 8);
        norm_tail_any<<<grid, 256, 0, s>>>(h, gain, bias, weight, pairs, g, static_cast<int>(size), e);
    }
    return static_cast<int>(cudaGetLastError());
}

torch::Tensor norm_tail(torch::Tensor h, torch::Tensor gain, torch::Tensor bias, torch::Tensor weight, int64_t groups,
                        double eps) {
    TORCH_CHECK(h.is_cuda() && h.scalar_type() == torch::kFloat, "expected a float32 tensor on the GPU");
    h = h.contiguous();
    const int failed = launch_norm_tail(h.data_ptr<float>(), gain.data_ptr<float>(), bias.data_ptr<float>(),
                                        weight.data_ptr<float>(), h.size(0), h.size(1), groups, eps,
                                        c10::cuda::getCurrentCUDAStream().stream());
    TORCH_CHECK(failed == 0, "norm_tail: CUDA error ", failed);
    return h;
}
"""

CPP_SOURCE = """
torch::Tensor norm_tail(torch::Tensor h, torch::Tensor gain, torch::Tensor bias, torch::Tensor weight, int64_t groups,
                        double eps);
"""

extension = load_inline(
    name="gemm_groupnorm_swish",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["norm_tail"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int, num_groups: int) -> None:
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.group_norm = nn.GroupNorm(num_groups, out_features)  # holds parameters; its forward is not called
        self.multiply_weight = nn.Parameter(torch.randn(out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        norm = self.group_norm
        return extension.norm_tail(
            self.gemm(x), norm.weight, norm.bias, self.multiply_weight, norm.num_groups, norm.eps
        )
