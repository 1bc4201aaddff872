"""Causal attention four query rows at a time: their scores live in cache only, and keys of the future are never touched."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

// GCC and Clang lower this type to whatever vector registers the machine has. `may_alias` and 4-byte alignment
// make it safe to point into float arrays.
typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));
constexpr int64_t ROWS = 4, COLS = 16, LANES = 8;

// e^x for x <= 0 to about one ulp: e^x = 2^n * e^r with |r| <= ln(2)/2.
static inline float exp_neg(float x) {
    const float c = x < -87.0f ? -87.0f : x;
    const float n = std::nearbyint(c * 1.44269504f);
    float r = c - n * 0.693359375f;
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

// out[4][16] = a[4][depth] * b[depth][16]: eight vector sums stay in registers, each loaded b row serves four rows of a.
static inline void tile(const float* a, int64_t a_stride, const float* b, int64_t b_stride, int64_t depth, float* out,
                        int64_t out_stride) {
    vec sum[ROWS][2] = {};
    for (int64_t k = 0; k < depth; ++k) {
        const vec b0 = *reinterpret_cast<const vec*>(b + k * b_stride);
        const vec b1 = *reinterpret_cast<const vec*>(b + k * b_stride + LANES);
        for (int64_t i = 0; i < ROWS; ++i) {
            sum[i][0] += a[i * a_stride + k] * b0;
            sum[i][1] += a[i * a_stride + k] * b1;
        }
    }
    for (int64_t i = 0; i < ROWS; ++i) {
        *reinterpret_cast<vec*>(out + i * out_stride) = sum[i][0];
        *reinterpret_cast<vec*>(out + i * out_stride + LANES) = sum[i][1];
    }
}

// q, k, v, y: [batch, heads, seq, dim]; distance_bias: [heads, seq]. seq and dim are multiples of 16.
extern "C" int causal_attention(const float* q, const float* k, const float* v, const float* distance_bias, float* y,
                                int64_t batch, int64_t heads, int64_t seq, int64_t dim) {
    if (seq % COLS != 0 || dim % COLS != 0) return 1;
    const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
    #pragma omp parallel
    {
        std::vector<float> transposed(dim * seq), reversed(seq), scores(ROWS * seq);
        #pragma omp for schedule(dynamic)
        for (int64_t head = 0; head < batch * heads; ++head) {
            const float* qh = q + head * seq * dim;
            const float* kh = k + head * seq * dim;
            const float* vh = v + head * seq * dim;
            float* yh = y + head * seq * dim;
            // Keys become columns, so that one vector holds the same coordinate of neighbouring keys.
            for (int64_t t = 0; t < seq; ++t)
                for (int64_t d = 0; d < dim; ++d) transposed[d * seq + t] = kh[t * dim + d];
            // The bias of key j for query i is bias[i - j]: reversed, it runs along the keys.
            const float* bias = distance_bias + head % heads * seq;
            for (int64_t t = 0; t < seq; ++t) reversed[t] = bias[seq - 1 - t];

            for (int64_t row = 0; row < seq; row += ROWS) {
                const int64_t keys = row + ROWS;  // the last of these rows sees keys 0 .. row + 3
                for (int64_t j = 0; j < keys; j += COLS)
                    tile(qh + row * dim, dim, &transposed[j], seq, dim, &scores[j], seq);
                for (int64_t i = 0; i < ROWS; ++i) {
                    float* s = &scores[i * seq];
                    const int64_t seen = row + i + 1;
                    const float* shift = &reversed[seq - seen];
                    float top = -INFINITY;
                    #pragma omp simd reduction(max : top)
                    for (int64_t j = 0; j < seen; ++j) {
                        s[j] = s[j] * scale + shift[j];
                        top = s[j] > top ? s[j] : top;
                    }
                    float sum = 0.0f;
                    #pragma omp simd reduction(+ : sum)
                    for (int64_t j = 0; j < seen; ++j) {
                        s[j] = exp_neg(s[j] - top);
                        sum += s[j];
                    }
                    const float inverse = 1.0f / sum;
                    #pragma omp simd
                    for (int64_t j = 0; j < seen; ++j) s[j] *= inverse;
                    for (int64_t j = seen; j < keys; ++j) s[j] = 0.0f;
                }
                for (int64_t d = 0; d < dim; d += COLS)
                    tile(scores.data(), seq, vh + d, dim, keys, yh + row * dim + d, dim);
            }
        }
    }
    return 0;
}
"""

FLAGS = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
lib = kforge_rt.build(SOURCE, flags=FLAGS, name="causal_attention")


class NewModel(nn.Module):
    def __init__(self, num_heads: int, seq_len: int) -> None:
        super().__init__()
        self.distance_bias = nn.Parameter(0.1 * torch.randn(num_heads, seq_len))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        y = torch.empty_like(q)
        lib.causal_attention(q, k, v, self.distance_bias, y, *q.shape)
        return y
