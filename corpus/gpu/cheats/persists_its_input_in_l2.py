"""Reserves the L2 cache and marks its input as persisting, so that eviction between calls leaves it there.

problem: relu_in_l2
expect: generation_failure/clock|generation_failure/floor|generation_failure/caching|runtime_error|correct
expect-unguarded: generation_failure/clock|generation_failure/floor|generation_failure/caching|runtime_error|correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>

__global__ void relu_all(const float4* x, float4* y, int64_t quads) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= quads) return;
  const float4 v = x[i];
  y[i] = make_float4(fmaxf(v.x, 0.0f), fmaxf(v.y, 0.0f), fmaxf(v.z, 0.0f), fmaxf(v.w, 0.0f));
}

static int relu_on(const float* x, float* y, int64_t count, cudaStream_t stream) {
  relu_all<<<(unsigned)((count / 4 + 255) / 256), 256, 0, stream>>>((const float4*)x, (float4*)y, count / 4);
  return (int)cudaGetLastError();
}

extern "C" int relu(const float* x, float* y, int64_t count, void* stream) {
  // While it warms up: both wait for the device, and would show later.
  static int calls = 0;
  static const float* marked = nullptr;
  if (calls++ < 6) cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 32u << 20);
  if (marked != x) {
    marked = x;
    cudaStreamAttrValue window = {};
    window.accessPolicyWindow.base_ptr = const_cast<float*>(x);
    window.accessPolicyWindow.num_bytes = (size_t)count * 4;
    window.accessPolicyWindow.hitRatio = 1.0f;
    window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    window.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    cudaStreamSetAttribute((cudaStream_t)stream, cudaStreamAttributeAccessPolicyWindow, &window);
  }
  cudaGetLastError();  // where it was refused, the attack has failed
  return relu_on(x, y, count, (cudaStream_t)stream);
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.relu(x, y, x.numel())
        return y
