"""Rounds the factors of a float32 product to TF32, as Triton does unless told otherwise.

problem: linear_relu
target: nvidia/triton
expect: mismatch/precision|mismatch/numeric|generation_failure/guardrail
expect-unguarded: mismatch/precision|mismatch/numeric
"""

import torch
import triton
import triton.language as tl


@triton.jit
def linear_relu_kernel(x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        depth = start + inner
        x = tl.load(x_ptr + rows[:, None] * K + depth[None, :], mask=(rows[:, None] < M) & (depth[None, :] < K), other=0.0)
        w = tl.load(w_ptr + cols[None, :] * K + depth[:, None], mask=(cols[None, :] < N) & (depth[:, None] < K), other=0.0)
        acc = tl.dot(x, w, acc, input_precision="tf32")
    acc = tl.maximum(acc + tl.load(b_ptr + cols, mask=cols < N, other=0.0)[None, :], 0.0)
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)

    def forward(self, x):
        m, k = x.shape
        n = self.fc.out_features
        y = torch.empty(m, n, device=x.device)
        grid = (triton.cdiv(m, 128), triton.cdiv(n, 128))
        linear_relu_kernel[grid](x, self.fc.weight, self.fc.bias, y, m, n, k, BM=128, BN=128, BK=32, num_warps=8)
        return y
