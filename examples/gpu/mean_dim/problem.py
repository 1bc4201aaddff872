"""The mean over the middle dimension: many long columns, a small result."""

import torch
from torch import nn

batch_size = 32
steps = 1024
features = 1024


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mean(x, dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, steps, features)]


def get_init_inputs() -> list[object]:
    return []
