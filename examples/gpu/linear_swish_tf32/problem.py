"""A linear layer, Swish and a scale, as in KernelBench's level 2; its contract allows TF32 products."""

import torch
from torch import nn

KFORGE = dict(mul="tf32")

batch_size = 4096
in_features = 4096
out_features = 4096


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, scale: float = 2.0) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.linear(x)
        return h * torch.sigmoid(h) * self.scale


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, in_features)]


def get_init_inputs() -> list[object]:
    return [in_features, out_features]
