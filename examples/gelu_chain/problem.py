"""An elementwise chain: scale and shift per feature, GELU, a sigmoid gate of the same value, and a tanh soft cap."""

import torch
from torch import nn
from torch.nn import functional as F

batch_size = 2048
dim = 1024


class Model(nn.Module):
    def __init__(self, dim: int, cap: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))
        self.shift = nn.Parameter(torch.zeros(dim))
        self.cap = cap

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        u = x * self.scale + self.shift
        h = F.gelu(u) * torch.sigmoid(u)
        return self.cap * torch.tanh(h / self.cap)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, dim)]


def get_init_inputs() -> list[object]:
    return [dim, 30.0]
