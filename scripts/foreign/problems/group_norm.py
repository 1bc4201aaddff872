"""GroupNorm of images."""

import torch
import torch.nn.functional as F
from torch import nn

batch_size = 16
channels = 128
groups = 16
side = 64


class Model(nn.Module):
    def __init__(self, channels: int, groups: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.groups = groups
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.group_norm(x, self.groups, self.weight, self.bias, self.eps)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, channels, side, side)]


def get_init_inputs() -> list[object]:
    return [channels, groups, 1e-5]
