"""Bias, rotation and both updates in one pass, straight into the caches.

problem: kv_cache
expect: correct
timed: what it writes in its inputs
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

static inline void turned(const float* in, const float* bias, const float* c, const float* s, float* out, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const float u = in[i] + bias[i], v = in[i + half] + bias[i + half];
    out[i] = u * c[i] - v * s[i];
    out[i + half] = v * c[i] + u * s[i];
  }
}

extern "C" int update(const float* qkv, const float* bias, const float* cosines, const float* sines, float* k_cache,
                      float* v_cache, const int64_t* slots, float* q, int64_t batch, int64_t tokens, int64_t heads, int64_t dim,
                      int64_t cache) {
  const int64_t width = heads * dim, half = dim / 2;
  #pragma omp parallel for collapse(2)
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < tokens; ++t) {
      const float* in = qkv + (b * tokens + t) * 3 * width;
      const float *c = cosines + t * half, *s = sines + t * half;
      for (int64_t h = 0; h < width; h += dim) turned(in + h, bias + h, c, s, q + (b * tokens + t) * width + h, half);
      float* to_k = k_cache + (b * cache + slots[t]) * width;
      float* to_v = v_cache + (b * cache + slots[t]) * width;
      for (int64_t h = 0; h < width; h += dim) turned(in + width + h, bias + width + h, c, s, to_k + h, half);
      for (int64_t i = 0; i < width; ++i) to_v[i] = in[2 * width + i] + bias[2 * width + i];
    }
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, num_heads, head_dim):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(3 * num_heads * head_dim))

    def forward(self, qkv, cos, sin, k_cache, v_cache, slots):
        batch, tokens, _ = qkv.shape
        heads, dim = k_cache.shape[2:]
        q = torch.empty(batch, tokens, heads, dim)
        LIB.update(qkv, self.bias, cos, sin, k_cache, v_cache, slots, q, batch, tokens, heads, dim, k_cache.shape[1])
        return q
