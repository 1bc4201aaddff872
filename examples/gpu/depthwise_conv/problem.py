"""A depthwise 3x3 convolution and Hardswish, as in mobile networks."""

import torch
from torch import nn
from torch.nn import functional as F

batch_size = 8
channels = 64
height = 256
width = 256


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardswish(self.conv(x))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, channels, height, width)]


def get_init_inputs() -> list[object]:
    return [channels]
