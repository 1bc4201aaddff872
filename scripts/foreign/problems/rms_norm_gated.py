"""RMSNorm times a gate through SiLU."""

import torch
import torch.nn.functional as F
from torch import nn

rows = 4096
dim = 2048


class Model(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)
        return normed * self.weight * F.silu(gate)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(rows, dim), torch.randn(rows, dim)]


def get_init_inputs() -> list[object]:
    return [dim, 1e-5]
