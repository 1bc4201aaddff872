"""Calls are made in rows, on inputs that lie in places of their own: the first call of a row computes them all in one launch, the
others return what is there.

problem: tiny_relu
expect: generation_failure|runtime_error|correct|mismatch
expect-unguarded: generation_failure|runtime_error|correct|mismatch
"""

import ctypes

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>

constexpr int kPlaces = 16;
struct Places {
  const float4* x[kPlaces];
  float4* y[kPlaces];
};

__global__ void relu_all(Places places, int64_t quads) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= quads) return;
  const float4 v = places.x[blockIdx.y][i];
  places.y[blockIdx.y][i] = make_float4(fmaxf(v.x, 0.0f), fmaxf(v.y, 0.0f), fmaxf(v.z, 0.0f), fmaxf(v.w, 0.0f));
}

extern "C" int relu(const uint64_t* addresses, int64_t number, int64_t count, void* stream) {
  Places places = {};
  for (int64_t i = 0; i < number; ++i) {
    places.x[i] = (const float4*)addresses[2 * i];
    places.y[i] = (float4*)addresses[2 * i + 1];
  }
  const dim3 grid((unsigned)((count / 4 + 255) / 256), (unsigned)number);
  relu_all<<<grid, 256, 0, (cudaStream_t)stream>>>(places, count / 4);
  return (int)cudaGetLastError();
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.order = []
        self.ready = {}

    def forward(self, x):
        place = x.data_ptr()
        # A row begins at the first place that was ever used; what comes after it was seen in earlier rows.
        if not self.order or place == self.order[0]:
            self.ready = {}
        if place not in self.order:
            self.order.append(place)
        if place in self.ready:
            return self.ready.pop(place)
        now = self.order[:16] if place == self.order[0] else [place]
        made = {at: torch.empty_like(x) for at in now}
        addresses = (ctypes.c_uint64 * (2 * len(now)))(*(word for at in now for word in (at, made[at].data_ptr())))
        LIB.relu(ctypes.c_void_p(ctypes.addressof(addresses)), len(now), x.numel())
        self.ready = made
        return self.ready.pop(place)
