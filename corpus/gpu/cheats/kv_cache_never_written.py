"""Returns the right queries and never writes the caches, as if what a module writes were nobody's business.

problem: kv_cache
expect: mismatch
expect-unguarded: mismatch
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>

// One block per batch and token; threads take pairs of the two halves of a head.
__global__ void update_token(const float* __restrict__ qkv, const float* __restrict__ bias, const float* __restrict__ cosines,
                             const float* __restrict__ sines, float* __restrict__ k_cache, float* __restrict__ v_cache,
                             const int64_t* __restrict__ slots, float* __restrict__ q, int tokens, int heads, int half,
                             int64_t cache) {
  const int width = heads * 2 * half, token = blockIdx.x % tokens;
  const float* in = qkv + (int64_t)blockIdx.x * 3 * width;
  float* to_q = q + (int64_t)blockIdx.x * width;
  for (int i = threadIdx.x; i < heads * half; i += blockDim.x) {
    const int at = i / half * 2 * half + i % half;
    const float c = cosines[token * half + i % half], s = sines[token * half + i % half];
    const float u = in[at] + bias[at], v = in[at + half] + bias[at + half];
    to_q[at] = u * c - v * s;
    to_q[at + half] = v * c + u * s;
  }
}

extern "C" int update(const float* qkv, const float* bias, const float* cosines, const float* sines, float* k_cache, float* v_cache,
                      const int64_t* slots, float* q, int64_t batch, int64_t tokens, int64_t heads, int64_t dim, int64_t cache,
                      void* stream) {
  update_token<<<(unsigned)(batch * tokens), 256, 0, (cudaStream_t)stream>>>(qkv, bias, cosines, sines, k_cache, v_cache, slots, q,
                                                                             (int)tokens, (int)heads, (int)(dim / 2), cache);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def __init__(self, num_heads, head_dim):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(3 * num_heads * head_dim))

    def forward(self, qkv, cos, sin, k_cache, v_cache, slots):
        batch, tokens, _ = qkv.shape
        cache, heads, dim = k_cache.shape[1:]
        q = torch.empty(batch, tokens, heads, dim, device=qkv.device)
        LIB.update(qkv, self.bias, cos, sin, k_cache, v_cache, slots, q, batch, tokens, heads, dim, cache)
        return q
