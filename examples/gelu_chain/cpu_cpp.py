"""The whole chain in one loop, with an exponential, erf and tanh short enough for the compiler to keep in registers."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <cstring>

static inline float clamp(float x, float limit) {  // written so that a NaN stays a NaN
    x = x < -limit ? -limit : x;
    return x > limit ? limit : x;
}

// e^x to about one ulp, held inside [e^-87, e^87], which is enough for a sigmoid: e^x = 2^n * e^r with |r| <= ln(2)/2.
static inline float exp_sat(float x) {
    x = clamp(x, 87.0f);
    const float n = std::nearbyint(x * 1.44269504f);
    float r = x - n * 0.693359375f;
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
    return p * power;
}

// erf(x) = x P(x^2) / Q(x^2), a few ulp; beyond the limit the result rounds to +-1.
static inline float erf_rational(float x) {
    x = clamp(x, 3.8325069f);
    const float t = x * x;
    float p = 2.2905065861e-4f;
    p = p * t + 3.4082910107e-3f;
    p = p * t + 5.0955695062e-2f;
    p = p * t + 1.8520832240e-1f;
    p = p * t + 1.1283791435e+0f;
    float q = -1.1791602954e-7f;
    q = q * t + 2.3547966471e-5f;
    q = q * t + 1.0179625279e-3f;
    q = q * t + 1.4070470171e-2f;
    q = q * t + 1.1098505178e-1f;
    q = q * t + 4.9746925110e-1f;
    q = q * t + 1.0f;
    return x * p / q;
}

// tanh(x) = x P(x^2) / Q(x^2), a few ulp; beyond the limit the result rounds to +-1.
static inline float tanh_rational(float x) {
    x = clamp(x, 7.9053111f);
    const float t = x * x;
    float p = -2.76076847742355e-16f;
    p = p * t + 2.00018790482477e-13f;
    p = p * t - 8.60467152213735e-11f;
    p = p * t + 5.12229709037114e-08f;
    p = p * t + 1.48572235717979e-05f;
    p = p * t + 6.37261928875436e-04f;
    p = p * t + 4.89352455891786e-03f;
    float q = 1.19825839466702e-06f;
    q = q * t + 1.18534705686654e-04f;
    q = q * t + 2.26843463243900e-03f;
    q = q * t + 4.89352518554385e-03f;
    return x * p / q;
}

extern "C" int gelu_chain(const float* x, const float* scale, const float* shift, float* y, int64_t rows, int64_t cols,
                          double cap_) {
    const float cap = static_cast<float>(cap_), inv_cap = static_cast<float>(1.0 / cap_);
    #pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
        const float* in = x + r * cols;
        float* out = y + r * cols;
        #pragma omp simd
        for (int64_t c = 0; c < cols; ++c) {
            const float u = in[c] * scale[c] + shift[c];
            const float gelu = 0.5f * u * (1.0f + erf_rational(u * 0.707106781f));
            const float h = gelu / (1.0f + exp_sat(-u));
            out[c] = cap * tanh_rational(h * inv_cap);
        }
    }
    return 0;
}
"""

FLAGS = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
lib = kforge_rt.build(SOURCE, flags=FLAGS, name="gelu_chain")


class NewModel(nn.Module):
    def __init__(self, dim: int, cap: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))
        self.shift = nn.Parameter(torch.zeros(dim))
        self.cap = cap

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        cols = x.shape[-1]
        lib.gelu_chain(x, self.scale, self.shift, y, x.numel() // cols, cols, float(self.cap))
        return y
