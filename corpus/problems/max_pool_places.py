import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Pooling that remembers where its maxima were, for unpooling."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.max_pool2d(x, 3, stride=2, padding=1, return_indices=True)


images = 4
channels = 16
size = 28


def get_inputs():
    return [torch.relu(torch.randn(images, channels, size, size))]


def get_init_inputs():
    return []
