"""Plain ctypes: writes its source to a temporary folder and calls the compiler itself with an argument list.

problem: row_softmax
expect: correct
"""

import ctypes
import shutil
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


def compile_library():
    folder = Path(tempfile.mkdtemp())
    source, output = folder / "softmax.cpp", folder / "softmax.so"
    source.write_text(SOURCE)
    compiler = shutil.which("g++") or "c++"
    subprocess.run(
        [compiler, "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", str(source), "-o", str(output)], check=True
    )
    return ctypes.CDLL(str(output))


LIB = compile_library()
LIB.softmax.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
LIB.softmax.restype = ctypes.c_int


class NewModel(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        LIB.softmax(x.data_ptr(), y.data_ptr(), x.shape[0], x.shape[1])
        return y
