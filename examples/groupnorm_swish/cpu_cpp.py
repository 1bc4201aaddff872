"""GroupNorm and Swish one group at a time: a group fits in cache, so statistics and activation cost one trip to memory."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <cstring>

// e^x to about one ulp, held inside [e^-87, e^88] (enough for a sigmoid). No call and no branch, so loops over it vectorise.
static inline float exp_sat(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
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

extern "C" int groupnorm_swish(const float* x, const float* weight, const float* bias, float* y, int64_t batch,
                               int64_t groups, int64_t channels_per_group, int64_t pixels, double eps) {
    const int64_t size = channels_per_group * pixels;
    #pragma omp parallel for schedule(static)
    for (int64_t g = 0; g < batch * groups; ++g) {
        const float* in = x + g * size;
        float* out = y + g * size;
        // Sums run in float within a channel and in double across channels: short float sums keep rounding small.
        double sum = 0.0, squares = 0.0;
        for (int64_t c = 0; c < channels_per_group; ++c) {
            float part = 0.0f;
            #pragma omp simd reduction(+ : part)
            for (int64_t i = c * pixels; i < (c + 1) * pixels; ++i) part += in[i];
            sum += part;
        }
        const float mean = static_cast<float>(sum / size);
        for (int64_t c = 0; c < channels_per_group; ++c) {
            float part = 0.0f;
            #pragma omp simd reduction(+ : part)
            for (int64_t i = c * pixels; i < (c + 1) * pixels; ++i) part += (in[i] - mean) * (in[i] - mean);
            squares += part;
        }
        const float scale = static_cast<float>(1.0 / std::sqrt(squares / size + eps));
        const int64_t first = (g % groups) * channels_per_group;
        for (int64_t c = 0; c < channels_per_group; ++c) {
            // Fetch the next group while this one is finished, or arithmetic and memory take turns.
            if (g + 1 < batch * groups)
                for (int64_t i = c * pixels; i < (c + 1) * pixels; i += 16) __builtin_prefetch(in + size + i);
            const float gain = scale * weight[first + c], shift = bias[first + c];
            #pragma omp simd
            for (int64_t i = c * pixels; i < (c + 1) * pixels; ++i) {
                const float h = (in[i] - mean) * gain + shift;
                out[i] = h / (1.0f + exp_sat(-h));
            }
        }
    }
    return 0;
}
"""

FLAGS = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
lib = kforge_rt.build(SOURCE, flags=FLAGS, name="groupnorm_swish")


class NewModel(nn.Module):
    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)  # holds the parameters and eps; its forward is not called

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        batch, channels = x.shape[:2]
        groups = self.norm.num_groups
        pixels = x.numel() // (batch * channels)
        lib.groupnorm_swish(
            x, self.norm.weight, self.norm.bias, y, batch, groups, channels // groups, pixels, float(self.norm.eps)
        )
        return y
