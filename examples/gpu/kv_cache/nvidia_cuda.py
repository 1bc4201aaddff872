"""Bias, rotation and cache update in CUDA: a block takes a token, four values at a time, to where they are wanted."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>
#include <initializer_list>

// Turns four pairs of a head's two halves.
__device__ __forceinline__ void turned(float4 a, float4 b, float4 c, float4 s, float4* first, float4* second) {
    __stcs(first, make_float4(a.x * c.x - b.x * s.x, a.y * c.y - b.y * s.y, a.z * c.z - b.z * s.z,
                              a.w * c.w - b.w * s.w));
    __stcs(second, make_float4(b.x * c.x + a.x * s.x, b.y * c.y + a.y * s.y, b.z * c.z + a.z * s.z,
                               b.w * c.w + a.w * s.w));
}

__device__ __forceinline__ float4 sum(const float4* in, const float4* bias) {
    const float4 v = __ldcs(in), b = __ldg(bias);
    return make_float4(v.x + b.x, v.y + b.y, v.z + b.z, v.w + b.w);
}

// One block per batch and token; `half` and `width` are counted in groups of four floats.
__global__ void __launch_bounds__(256)
update_token(const float4* __restrict__ qkv, const float4* __restrict__ bias, const float4* __restrict__ cosines,
             const float4* __restrict__ sines, float4* __restrict__ k_cache, float4* __restrict__ v_cache,
             const int64_t* __restrict__ slots, float4* __restrict__ q, int tokens, int heads, int half,
             int64_t cache) {
    const int width = heads * 2 * half, token = blockIdx.x % tokens;
    const int64_t slot = slots[token];
    if (slot < 0 || slot >= cache) return;
    const float4* in = qkv + static_cast<int64_t>(blockIdx.x) * 3 * width;
    const int64_t place = (static_cast<int64_t>(blockIdx.x / tokens) * cache + slot) * width;
    float4 *to_q = q + static_cast<int64_t>(blockIdx.x) * width, *to_k = k_cache + place, *to_v = v_cache + place;
    for (int i = threadIdx.x; i < heads * half; i += 256) {
        const int at = i / half * 2 * half + i % half, k = width + at;
        const float4 c = __ldg(cosines + token * half + i % half), s = __ldg(sines + token * half + i % half);
        turned(sum(in + at, bias + at), sum(in + at + half, bias + at + half), c, s, to_q + at, to_q + at + half);
        turned(sum(in + k, bias + k), sum(in + k + half, bias + k + half), c, s, to_k + at, to_k + at + half);
    }
    for (int i = threadIdx.x; i < width; i += 256) __stcs(to_v + i, sum(in + 2 * width + i, bias + 2 * width + i));
}

// Heads that are no multiple of eight wide, or memory that is not aligned: one value at a time.
__global__ void __launch_bounds__(256)
update_any(const float* __restrict__ qkv, const float* __restrict__ bias, const float* __restrict__ cosines,
           const float* __restrict__ sines, float* __restrict__ k_cache, float* __restrict__ v_cache,
           const int64_t* __restrict__ slots, float* __restrict__ q, int tokens, int heads, int half, int64_t cache) {
    const int width = heads * 2 * half, token = blockIdx.x % tokens;
    const int64_t slot = slots[token];
    if (slot < 0 || slot >= cache) return;
    const float* in = qkv + static_cast<int64_t>(blockIdx.x) * 3 * width;
    const int64_t place = (static_cast<int64_t>(blockIdx.x / tokens) * cache + slot) * width;
    float *to_q = q + static_cast<int64_t>(blockIdx.x) * width, *to_k = k_cache + place, *to_v = v_cache + place;
    for (int i = threadIdx.x; i < heads * half; i += 256) {
        const int at = i / half * 2 * half + i % half, k = width + at;
        const float c = cosines[token * half + i % half], s = sines[token * half + i % half];
        const float a = in[at] + bias[at], b = in[at + half] + bias[at + half];
        const float u = in[k] + bias[k], v = in[k + half] + bias[k + half];
        to_q[at] = a * c - b * s;
        to_q[at + half] = b * c + a * s;
        to_k[at] = u * c - v * s;
        to_k[at + half] = v * c + u * s;
    }
    for (int i = threadIdx.x; i < width; i += 256) to_v[i] = in[2 * width + i] + bias[2 * width + i];
}

extern "C" int update(const float* qkv, const float* bias, const float* cosines, const float* sines, float* k_cache,
                      float* v_cache, const int64_t* slots, float* q, int64_t batch, int64_t tokens, int64_t heads,
                      int64_t dim, int64_t cache, void* stream) {
    if (batch == 0 || tokens == 0 || heads == 0 || dim < 2) return 0;
    const cudaStream_t s = static_cast<cudaStream_t>(stream);
    const unsigned grid = static_cast<unsigned>(batch * tokens);
    const int n = static_cast<int>(tokens), h = static_cast<int>(heads), half = static_cast<int>(dim / 2);
    uintptr_t addresses = 0;
    for (const float* one : {qkv, bias, cosines, sines, static_cast<const float*>(k_cache),
                             static_cast<const float*>(v_cache), static_cast<const float*>(q)})
        addresses |= reinterpret_cast<uintptr_t>(one);
    const auto quads = [](const float* p) { return reinterpret_cast<const float4*>(p); };
    if (half % 4 == 0 && addresses % 16 == 0)
        update_token<<<grid, 256, 0, s>>>(quads(qkv), quads(bias), quads(cosines), quads(sines),
                                          reinterpret_cast<float4*>(k_cache), reinterpret_cast<float4*>(v_cache), slots,
                                          reinterpret_cast<float4*>(q), n, h, half / 4, cache);
    else
        update_any<<<grid, 256, 0, s>>>(qkv, bias, cosines, sines, k_cache, v_cache, slots, q, n, h, half, cache);
    return static_cast<int>(cudaGetLastError());
}
"""

lib = kforge_rt.build(SOURCE, lang="cuda", name="kv_cache")


class NewModel(nn.Module):
    def __init__(self, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(3 * num_heads * head_dim))

    def forward(
        self,
        qkv: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        slots: torch.Tensor,
    ) -> torch.Tensor:
        batch, tokens, _ = qkv.shape
        cache, heads, dim = k_cache.shape[1:]
        q = torch.empty(batch, tokens, heads, dim, device=qkv.device)
        lib.update(qkv, self.bias, cos, sin, k_cache, v_cache, slots, q, batch, tokens, heads, dim, cache)
        return q
