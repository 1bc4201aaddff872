"""The kernel of cpu_cpp.py as a PyTorch extension, for candidates written as for KernelBench (`ModelNew`, load_inline)."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

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

torch::Tensor softmax(torch::Tensor input, double temperature) {
    TORCH_CHECK(input.scalar_type() == torch::kFloat && input.device().is_cpu(), "expected a float32 tensor on the CPU");
    input = input.contiguous();
    torch::Tensor result = torch::empty_like(input);
    const int64_t cols = input.size(-1), rows = input.numel() / cols;
    const float* x = input.data_ptr<float>();
    float* y = result.data_ptr<float>();
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
    return result;
}
"""

FLAGS = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
extension = load_inline(
    name="softmax_inline",
    cpp_sources=SOURCE,
    functions=["softmax"],
    extra_cflags=FLAGS,
    extra_ldflags=["-fopenmp"],
)


class ModelNew(nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.softmax(x, self.temperature)
