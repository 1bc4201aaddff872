"""Gather, position add and LayerNorm row by row: no gathered or summed matrix is ever stored."""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" int embed_norm(const int64_t* ids, const float* tokens, const float* positions, const float* weight,
                          const float* bias, float* y, int64_t batch, int64_t seq, int64_t cols, int64_t vocabulary,
                          double eps) {
    int bad = 0;  // an id outside the table must be an error, not a read past its end
    #pragma omp parallel for schedule(static) reduction(| : bad)
    for (int64_t r = 0; r < batch * seq; ++r) {
        if (ids[r] < 0 || ids[r] >= vocabulary) {
            bad = 1;
            continue;
        }
        const float* token = tokens + ids[r] * cols;
        const float* position = positions + (r % seq) * cols;
        float* out = y + r * cols;
        // The hardware cannot guess where the next token's row lies; the ids say it.
        if (r + 1 < batch * seq && ids[r + 1] >= 0 && ids[r + 1] < vocabulary)
            for (int64_t c = 0; c < cols; c += 16) __builtin_prefetch(tokens + ids[r + 1] * cols + c);
        float sum = 0.0f;
        #pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < cols; ++c) {
            const float s = token[c] + position[c];
            out[c] = s;
            sum += s;
        }
        const float mean = sum / cols;
        float squares = 0.0f;
        #pragma omp simd reduction(+ : squares)
        for (int64_t c = 0; c < cols; ++c) {
            const float d = out[c] - mean;
            squares += d * d;
        }
        const float scale = 1.0f / std::sqrt(squares / cols + static_cast<float>(eps));
        #pragma omp simd
        for (int64_t c = 0; c < cols; ++c) out[c] = (out[c] - mean) * scale * weight[c] + bias[c];
    }
    return bad;
}
"""

FLAGS = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
lib = kforge_rt.build(SOURCE, flags=FLAGS, name="embed_norm")


class NewModel(nn.Module):
    def __init__(self, vocabulary: int, seq_len: int, dim: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, dim)
        self.positions = nn.Parameter(0.02 * torch.randn(seq_len, dim))
        self.norm = nn.LayerNorm(dim)  # holds the parameters and eps; its forward is not called

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        ids = ids.contiguous()
        batch, seq = ids.shape
        vocabulary, cols = self.tokens.weight.shape
        y = torch.empty(batch, seq, cols)
        lib.embed_norm(
            ids,
            self.tokens.weight,
            self.positions,
            self.norm.weight,
            self.norm.bias,
            y,
            batch,
            seq,
            cols,
            vocabulary,
            float(self.norm.eps),
        )
        return y
