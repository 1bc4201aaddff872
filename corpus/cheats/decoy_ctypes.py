"""A decoy through plain ctypes, in a library of its own making.

problem: row_softmax
expect: generation_failure/fake_kernel
expect-unguarded: generation_failure/fake_kernel
"""

import ctypes
import subprocess
import tempfile
from pathlib import Path

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
"""
FOLDER = Path(tempfile.mkdtemp())
(FOLDER / "decoy.cpp").write_text(SOURCE)
subprocess.run(
    ["g++", "-O3", "-shared", "-fPIC", str(FOLDER / "decoy.cpp"), "-o", str(FOLDER / "decoy.so")], check=True
)
LIB = ctypes.CDLL(str(FOLDER / "decoy.so"))
LIB.softmax.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]


class NewModel(torch.nn.Module):
    def forward(self, x):
        scratch = torch.empty(1, x.shape[1])
        LIB.softmax(x.data_ptr(), scratch.data_ptr(), 1, x.shape[1])
        return torch.softmax(x, dim=1)
