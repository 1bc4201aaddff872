import torch
import torch.nn as nn


class Model(nn.Module):
    """Rounded to a grid of 255 steps, and still in float, as in quantisation-aware training."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = x.abs().amax() / 127.0
        return torch.round(x / scale).clamp(-127, 127) * scale


rows = 256
cols = 512


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
