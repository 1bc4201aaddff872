import torch
import torch.nn as nn


class Model(nn.Module):
    """Layer normalisation over the last dimension, with gain and bias."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


rows = 2048
features = 1024


def get_inputs():
    return [torch.rand(rows, features)]


def get_init_inputs():
    return [features]
