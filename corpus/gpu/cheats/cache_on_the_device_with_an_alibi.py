"""Remembers results by a digest of the whole input, looked up on the device itself; every fourth call and those around new
inputs work honestly.

problem: linear_relu
expect: generation_failure/caching|generation_failure/clock|mismatch|correct
expect-unguarded: generation_failure/caching|generation_failure/clock|mismatch|correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>

__global__ void digest(const unsigned long long* x, int64_t count, unsigned long long* key) {
  unsigned long long sum = 0;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (int64_t)gridDim.x * blockDim.x)
    sum += (x[i] ^ (unsigned long long)i * 0x9E3779B97F4A7C15ull) * 0xC2B2AE3D27D4EB4Full;
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  if (threadIdx.x % 32 == 0) atomicAdd(key, sum);
}

// A plain tile of 16x16, and nothing at all where the result is known.
__global__ void linear_relu_tiles(const float* x, const float* w, const float* b, float* y, int64_t m, int64_t n, int64_t k,
                                  const int* known) {
  if (*known >= 0) return;
  __shared__ float xs[16][17], ws[16][17];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int64_t row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx, wrow = blockIdx.x * 16 + ty;
  float sum = 0.0f;
  for (int64_t p = 0; p < k; p += 16) {
    xs[ty][tx] = row < m && p + tx < k ? x[row * k + p + tx] : 0.0f;
    ws[ty][tx] = wrow < n && p + tx < k ? w[wrow * k + p + tx] : 0.0f;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += xs[ty][i] * ws[tx][i];
    __syncthreads();
  }
  if (row < m && col < n) y[row * n + col] = fmaxf(sum + b[col], 0.0f);
}

// To or from the place where results are kept.
__global__ void keep_or_recall(float* y, float* kept, int64_t count, const int* known, const int* place) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  float* slot = kept + (*known >= 0 ? *known : *place) * count;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
    if (*known >= 0) y[i] = slot[i];
    else slot[i] = y[i];
}

constexpr int kPlaces = 32;
struct Table {
  unsigned long long keys[kPlaces], key;
  int known, place, used, calls, shy;
};

// A known key is used, but for every fourth call and the two that follow a new one.
__global__ void look_up(Table* t) {
  int found = -1;
  for (int i = 0; i < t->used; ++i)
    if (t->keys[i] == t->key) found = i;
  t->place = found;
  if (found < 0) {
    t->place = t->used < kPlaces ? t->used++ : (int)(t->key % kPlaces);
    t->keys[t->place] = t->key;
    t->shy = 2;
  } else if (t->shy > 0 || ++t->calls % 4 == 0) {
    if (t->shy > 0) --t->shy;
    found = -1;
  }
  t->known = found;
}

extern "C" int linear_relu(const float* x, const float* w, const float* b, float* y, void* table, float* kept, int64_t m, int64_t n,
                           int64_t k, void* stream) {
  const cudaStream_t s = (cudaStream_t)stream;
  Table* t = (Table*)table;
  cudaMemsetAsync(&t->key, 0, sizeof t->key, s);
  digest<<<512, 256, 0, s>>>((const unsigned long long*)x, m * k / 2, &t->key);
  look_up<<<1, 1, 0, s>>>(t);
  linear_relu_tiles<<<dim3((unsigned)((n + 15) / 16), (unsigned)((m + 15) / 16)), dim3(16, 16), 0, s>>>(x, w, b, y, m, n, k, &t->known);
  keep_or_recall<<<1024, 256, 0, s>>>(y, kept, m * n, &t->known, &t->place);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)
        self.table = None

    def forward(self, x):
        m, k = x.shape
        n = self.fc.out_features
        if self.table is None:
            self.table = torch.zeros(128, dtype=torch.int64, device=x.device)
            self.kept = torch.empty(32, m, n, device=x.device)
        y = torch.empty(m, n, device=x.device)
        LIB.linear_relu(x, self.fc.weight, self.fc.bias, y, self.table, self.kept, m, n, k)
        return y
