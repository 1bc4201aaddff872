"""One pass over the product: bias and rotation on the way, straight to where queries, keys and values are wanted."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cstdint>

// Turns the two halves of a head, whose bias is added on the way.
static inline void turned(const float* in, const float* bias, const float* c, const float* s, float* out,
                          int64_t half) {
    #pragma omp simd
    for (int64_t i = 0; i < half; ++i) {
        const float u = in[i] + bias[i], v = in[i + half] + bias[i + half];
        out[i] = u * c[i] - v * s[i];
        out[i + half] = v * c[i] + u * s[i];
    }
}

extern "C" int update(const float* qkv, const float* bias, const float* cosines, const float* sines, float* k_cache,
                      float* v_cache, const int64_t* slots, float* q, int64_t batch, int64_t tokens, int64_t heads,
                      int64_t dim, int64_t cache) {
    const int64_t width = heads * dim, half = dim / 2;
    #pragma omp parallel for collapse(2) schedule(static)
    for (int64_t b = 0; b < batch; ++b) {
        for (int64_t t = 0; t < tokens; ++t) {
            const float* in = qkv + (b * tokens + t) * 3 * width;
            const int64_t slot = slots[t];
            if (slot < 0 || slot >= cache) continue;
            const float *c = cosines + t * half, *s = sines + t * half;
            float* to_q = q + (b * tokens + t) * width;
            float* to_k = k_cache + (b * cache + slot) * width;
            float* to_v = v_cache + (b * cache + slot) * width;
            for (int64_t h = 0; h < width; h += dim) {
                turned(in + h, bias + h, c, s, to_q + h, half);
                turned(in + width + h, bias + width + h, c, s, to_k + h, half);
            }
            #pragma omp simd
            for (int64_t i = 0; i < width; ++i) to_v[i] = in[2 * width + i] + bias[2 * width + i];
        }
    }
    return 0;
}
"""

lib = kforge_rt.build(SOURCE, name="kv_cache")


class NewModel(nn.Module):
    def __init__(self, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.num_heads = num_heads
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
        batch, tokens, width = qkv.shape
        heads, dim = k_cache.shape[2:]
        q = torch.empty(batch, tokens, heads, dim, dtype=qkv.dtype)
        lib.update(qkv, self.bias, cos, sin, k_cache, v_cache, slots, q, batch, tokens, heads, dim, k_cache.shape[1])
        return q
