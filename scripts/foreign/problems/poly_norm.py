"""The first three powers of an activation, each normalised by its RMS, and their weighted sum."""

import torch
from torch import nn

rows = 2048
dim = 4096


class Model(nn.Module):
    def __init__(self, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), 1.0 / 3.0))
        self.bias = nn.Parameter(torch.zeros(1))
        self.eps = eps

    def normalised(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        cubed, squared, plain = (self.normalised(x**power) for power in (3, 2, 1))
        return self.weight[0] * cubed + self.weight[1] * squared + self.weight[2] * plain + self.bias


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(rows, dim)]


def get_init_inputs() -> list[object]:
    return [1e-6]
