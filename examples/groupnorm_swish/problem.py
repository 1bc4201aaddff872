"""GroupNorm followed by Swish on an image batch, as in the residual blocks of diffusion models."""

import torch
from torch import nn
from torch.nn import functional as F

batch_size = 16
channels = 128
groups = 32
height = 32
width = 32


class Model(nn.Module):
    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.norm(x))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, channels, height, width)]


def get_init_inputs() -> list[object]:
    return [groups, channels]
