"""A linear layer with bias and GELU in strict float32: the first half of a transformer's feed-forward block."""

import torch
from torch import nn
from torch.nn import functional as F

batch_size = 4096
in_features = 1024
out_features = 4096


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.linear(x))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, in_features)]


def get_init_inputs() -> list[object]:
    return [in_features, out_features]
