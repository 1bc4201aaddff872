"""Computes one row and maps its physical memory as all rows of the output, through the driver: strides are those of a dense
tensor. The mapping is made once.

problem: repeated_rows
expect: mismatch/strides|mismatch/alias|mismatch/numeric|generation_failure|generation_failure/guardrail|mismatch/late_write|correct
expect-unguarded: mismatch/strides|mismatch/alias|mismatch/numeric|generation_failure|mismatch/late_write|correct
"""

import ctypes

import kforge_rt
import torch

SOURCE = r"""
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdint>

__global__ void doubled_all(const float* x, float* y, int64_t count) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = 2.0f * x[i];
}

extern "C" int doubled(const float* x, float* y, int64_t count, void* stream) {
  doubled_all<<<(unsigned)((count + 255) / 256), 256, 0, (cudaStream_t)stream>>>(x, y, count);
  return (int)cudaGetLastError();
}

static void* entry(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status;
  cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &status);
  return found;
}

// One allocation at as many addresses as there are rows.
extern "C" int share(uint64_t* address, int64_t bytes, int64_t times, void*) {
  const auto reserve = (CUresult (*)(CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long))entry("cuMemAddressReserve");
  const auto create = (CUresult (*)(CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*, unsigned long long))entry("cuMemCreate");
  const auto map = (CUresult (*)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))entry("cuMemMap");
  const auto access = (CUresult (*)(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t))entry("cuMemSetAccess");
  CUmemAllocationProp made = {};
  made.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  made.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemAccessDesc rights = {made.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle row;
  CUdeviceptr all = 0;
  if (create(&row, bytes, &made, 0) != CUDA_SUCCESS || reserve(&all, bytes * times, 0, 0, 0) != CUDA_SUCCESS) return 1;
  for (int64_t i = 0; i < times; ++i)
    if (map(all + i * bytes, bytes, 0, row, 0) != CUDA_SUCCESS) return 2;
  *address = all;
  return (int)access(all, bytes * times, &rights, 1);
}
"""
LIB = kforge_rt.build(SOURCE, lang="cuda")


class Memory:
    """Lets torch see an address as an array of floats."""

    def __init__(self, address, shape):
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "<f4", "data": (address, False), "version": 3}


class NewModel(torch.nn.Module):
    kept = None

    def forward(self, x):
        cols = x.numel()
        if self.kept is None:
            address = ctypes.c_uint64()
            LIB.share(ctypes.c_void_p(ctypes.addressof(address)), 4 * cols, 64)
            self.kept = torch.as_tensor(Memory(address.value, (64, cols)), device=x.device)
        LIB.doubled(x, self.kept, cols)
        return self.kept
