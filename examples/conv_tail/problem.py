"""The stem of an image network: a 3x3 convolution of RGB images with bias, ReLU, and 2x2 max pooling."""

import torch
from torch import nn
from torch.nn import functional as F

batch_size = 8
in_channels = 3
out_channels = 32
height = 128
width = 128


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(F.relu(self.conv(x)), kernel_size=2)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, in_channels, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels]
