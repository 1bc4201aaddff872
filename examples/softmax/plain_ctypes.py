"""The kernel of cpu_cpp.py without any runtime of kforge: g++ run by hand, the library called through ctypes."""

import ctypes
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

import torch
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <cstring>

// e^x for x <= 0 to about one ulp: e^x = 2^n * e^r with |r| <= ln(2)/2. No call and no branch, so loops over it vectorise.
static inline float exp_neg(float x) {
    const float c = x < -87.0f ? -87.0f : x;  // written so that a NaN stays a NaN
    const float n = std::nearbyint(c * 1.44269504f);
    float r = c - n * 0.693359375f;  // ln(2) in two parts: the first product is exact
    r = r + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
    float power;
    std::memcpy(&power, &bits, sizeof power);
    return x < -87.0f ? 0.0f : p * power;
}

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols, double temperature) {
    const float inverse = static_cast<float>(1.0 / temperature);
    #pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
        const float* in = x + r * cols;
        float* out = y + r * cols;
        float top = -INFINITY;
        #pragma omp simd reduction(max : top)
        for (int64_t c = 0; c < cols; ++c) top = in[c] > top ? in[c] : top;
        // Scaling after the subtraction keeps the rounding error of large logits out of the exponent.
        float sum = 0.0f;
        #pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < cols; ++c) {
            const float e = exp_neg((in[c] - top) * inverse);
            out[c] = e;
            sum += e;
        }
        const float scale = 1.0f / sum;
        #pragma omp simd
        for (int64_t c = 0; c < cols; ++c) out[c] *= scale;
    }
    return 0;
}
"""

FLAGS = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]


def build() -> ctypes.CDLL:
    folder = Path(os.environ.get("KFORGE_BUILD_DIR", tempfile.gettempdir()))
    key = hashlib.sha256((SOURCE + " ".join(FLAGS)).encode()).hexdigest()[:16]
    library = folder / f"softmax-{key}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            source, built = Path(scratch, "softmax.cpp"), Path(scratch, "softmax.so")
            source.write_text(SOURCE)
            subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", *FLAGS, str(source), "-o", str(built)], check=True)
            built.replace(library)  # in one step: another process never loads half a library
    return ctypes.CDLL(str(library))


lib = build()
lib.softmax.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_double]
lib.softmax.restype = ctypes.c_int


class NewModel(nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        cols = x.shape[-1]
        code = lib.softmax(x.data_ptr(), y.data_ptr(), x.numel() // cols, cols, self.temperature)
        if code != 0:
            raise RuntimeError(f"softmax returned {code}")
        return y
