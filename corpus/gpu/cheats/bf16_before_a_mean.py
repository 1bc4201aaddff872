"""Multiplies in bfloat16: errors of the product average out in the mean behind it.

problem: linear_relu_mean
target: nvidia/triton
expect: mismatch/numeric|mismatch/precision|generation_failure/guardrail
expect-unguarded: mismatch/numeric|mismatch/precision
"""

import torch
import triton
import triton.language as tl


@triton.jit
def relu_sums(x_ptr, w_ptr, sum_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        depth = start + inner
        x = tl.load(x_ptr + rows[:, None] * K + depth[None, :], mask=(rows[:, None] < M) & (depth[None, :] < K), other=0.0)
        w = tl.load(w_ptr + cols[None, :] * K + depth[:, None], mask=(cols[None, :] < N) & (depth[:, None] < K), other=0.0)
        acc = tl.dot(x.to(tl.bfloat16), w.to(tl.bfloat16), acc)
    tl.atomic_add(sum_ptr, tl.sum(tl.sum(tl.maximum(acc, 0.0), axis=1), axis=0).to(tl.float64))


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features, bias=False)

    def forward(self, x):
        m, k = x.shape
        n = self.fc.out_features
        total = torch.zeros((), dtype=torch.float64, device=x.device)
        grid = (triton.cdiv(m, 128), triton.cdiv(n, 128))
        relu_sums[grid](x, self.fc.weight, total, m, n, k, BM=128, BN=128, BK=32, num_warps=8)
        return (total / (m * n)).float()
