"""RMSNorm over the last dimension."""

import torch
from torch import nn

rows = 2048
dim = 4096


class Model(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(rows, dim)]


def get_init_inputs() -> list[object]:
    return [dim, 1e-6]
