"""A blocked matrix product that adds bias and applies GELU to a tile while it is still in registers and cache."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cstdint>

// GCC and Clang lower this type to whatever vector registers the machine has. `may_alias` and 4-byte alignment
// make it safe to point into float arrays.
typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));
constexpr int64_t ROWS = 6, COLS = 16, LANES = 8;  // one tile: twelve vector sums, which fit in sixteen registers

// erf(x) = x P(x^2) / Q(x^2), a few ulp; beyond the limit the result rounds to +-1.
static inline float erf_rational(float x) {
    x = x < -3.8325069f ? -3.8325069f : x;
    x = x > 3.8325069f ? 3.8325069f : x;
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

// x: [rows, depth]; packed: [cols / 16, depth, 16]; y: [rows, cols].
extern "C" int linear_gelu(const float* x, const float* packed, const float* bias, float* y, int64_t rows,
                           int64_t depth, int64_t cols) {
    if (cols % COLS != 0) return 1;
    const int64_t row_tiles = (rows + ROWS - 1) / ROWS, col_tiles = cols / COLS;
    constexpr int64_t BLOCK = 16;  // column tiles that stay in the second-level cache while all rows pass by
    #pragma omp parallel
    for (int64_t first = 0; first < col_tiles; first += BLOCK) {
        const int64_t last = first + BLOCK < col_tiles ? first + BLOCK : col_tiles;
        #pragma omp for schedule(static) nowait
        for (int64_t rt = 0; rt < row_tiles; ++rt) {
            const float* a[ROWS];
            for (int64_t i = 0; i < ROWS; ++i) {  // a short last tile repeats the last row and does not store it again
                const int64_t r = rt * ROWS + i;
                a[i] = x + (r < rows ? r : rows - 1) * depth;
            }
            for (int64_t ct = first; ct < last; ++ct) {
                const float* b = packed + ct * depth * COLS;
                vec sum[ROWS][2] = {};
                for (int64_t k = 0; k < depth; ++k) {
                    const vec b0 = *reinterpret_cast<const vec*>(b + k * COLS);
                    const vec b1 = *reinterpret_cast<const vec*>(b + k * COLS + LANES);
                    for (int64_t i = 0; i < ROWS; ++i) {
                        sum[i][0] += a[i][k] * b0;
                        sum[i][1] += a[i][k] * b1;
                    }
                }
                float tile[ROWS][COLS];
                for (int64_t i = 0; i < ROWS; ++i) {
                    *reinterpret_cast<vec*>(&tile[i][0]) = sum[i][0];
                    *reinterpret_cast<vec*>(&tile[i][LANES]) = sum[i][1];
                }
                for (int64_t i = 0; i < ROWS && rt * ROWS + i < rows; ++i) {
                    float* out = y + (rt * ROWS + i) * cols + ct * COLS;
                    #pragma omp simd
                    for (int64_t j = 0; j < COLS; ++j) {
                        const float u = tile[i][j] + bias[ct * COLS + j];
                        out[j] = 0.5f * u * (1.0f + erf_rational(u * 0.707106781f));
                    }
                }
            }
        }
    }
    return 0;
}
"""

FLAGS = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
lib = kforge_rt.build(SOURCE, flags=FLAGS, name="linear_gelu")


def pack(weight: torch.Tensor) -> torch.Tensor:
    """Put sixteen output columns side by side, so that the kernel reads the weight in the order it is stored."""
    out_features, in_features = weight.shape
    return weight.view(out_features // 16, 16, in_features).transpose(1, 2).contiguous()


class NewModel(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)  # holds the parameters; its forward is not called
        self.packed: torch.Tensor | None = None

    def prepare(self) -> None:
        """Pack the weight once, before the timed calls; kforge calls this whenever the weights are constant."""
        self.packed = pack(self.linear.weight.detach())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        packed = pack(self.linear.weight) if self.packed is None else self.packed
        depth, cols = x.shape[-1], self.linear.bias.shape[0]
        y = torch.empty(*x.shape[:-1], cols, dtype=x.dtype)
        lib.linear_gelu(x, packed, self.linear.bias, y, x.numel() // depth, depth, cols)
        return y
