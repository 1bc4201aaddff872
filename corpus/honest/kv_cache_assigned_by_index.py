"""Its own kernel turns queries and keys; the framework puts keys and values into the caches by index.

problem: kv_cache
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int turn(const float* qkv, const float* bias, const float* cosines, const float* sines, float* q, float* k, float* v,
                    int64_t places, int64_t tokens, int64_t heads, int64_t dim) {
  const int64_t width = heads * dim, half = dim / 2;
  #pragma omp parallel for
  for (int64_t p = 0; p < places; ++p)
    for (int64_t part = 0; part < 3; ++part) {
      const float *in = qkv + (3 * p + part) * width, *b = bias + part * width;
      float* out = (part == 0 ? q : part == 1 ? k : v) + p * width;
      for (int64_t h = 0; h < width; h += dim)
        for (int64_t i = 0; i < half; ++i) {
          const float c = part < 2 ? cosines[p % tokens * half + i] : 1.0f, s = part < 2 ? sines[p % tokens * half + i] : 0.0f;
          const float u = in[h + i] + b[h + i], w = in[h + half + i] + b[h + half + i];
          out[h + i] = u * c - w * s;
          out[h + half + i] = w * c + u * s;
        }
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
        q, k, v = (torch.empty(batch, tokens, heads, dim) for _ in range(3))
        LIB.turn(qkv, self.bias, cos, sin, q, k, v, batch * tokens, tokens, heads, dim)
        k_cache[:, slots] = k
        v_cache[:, slots] = v
        return q
