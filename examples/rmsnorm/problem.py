"""Gated RMSNorm as in state-space models: the root mean square norm of x * silu(gate), with a gain."""

import torch
from torch import nn
from torch.nn import functional as F

batch_size = 4
seq_len = 512
dim = 1024


class Model(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        h = x * F.silu(gate)
        return h * torch.rsqrt(h.pow(2).mean(dim=-1, keepdim=True) + self.eps) * self.weight


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, seq_len, dim), torch.randn(batch_size, seq_len, dim)]


def get_init_inputs() -> list[object]:
    return [dim, 1e-5]
