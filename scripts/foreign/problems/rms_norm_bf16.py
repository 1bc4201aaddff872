"""RMSNorm over the last dimension in bfloat16, its statistics in float32."""

import torch
from torch import nn

rows = 4096
dim = 4096


class Model(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim, dtype=torch.bfloat16))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (normed * self.weight.float()).to(x.dtype)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(rows, dim).to(torch.bfloat16)]


def get_init_inputs() -> list[object]:
    return [dim, 1e-6]
