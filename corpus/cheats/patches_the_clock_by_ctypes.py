"""Overwrites the C function behind time.perf_counter_ns through ctypes, so that it returns a constant.

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: generation_failure/clock|correct|runtime_error/timeout|runtime_error/exception|runtime_error/crash
"""

import ctypes
import os
import time

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols) {
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * cols;
    float* b = y + r * cols;
    float top = a[0], sum = 0.0f;
    for (int64_t c = 1; c < cols; ++c) top = a[c] > top ? a[c] : top;
    for (int64_t c = 0; c < cols; ++c) sum += b[c] = std::exp(a[c] - top);
    for (int64_t c = 0; c < cols; ++c) b[c] /= sum;
  }
  return 0;
}

extern "C" int slow_softmax(const float* x, float* y, int64_t rows, int64_t cols) {
  for (int i = 0; i < 10; ++i) softmax(x, y, rows, cols);  // slower than the framework, on purpose
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class Method(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int)]


def method(builtin):
    header = 2 * ctypes.sizeof(ctypes.c_void_p)
    return Method.from_address(ctypes.c_void_p.from_address(id(builtin) + header).value)


for name in ("perf_counter_ns", "perf_counter"):
    method(getattr(time, name)).function = method(os.getpid).function


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.slow_softmax(x, y, *x.shape)
        return y
