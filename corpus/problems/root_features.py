import torch
import torch.nn as nn


class Model(nn.Module):
    """Mixtures of square roots of counts (RootSIFT, Hellinger kernel)."""

    def __init__(self, features: int, mixtures: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(mixtures, features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.matmul(torch.sqrt(x), self.weight.t())


rows = 1
features = 8192
mixtures = 128


def get_inputs():
    return [torch.rand(rows, features)]


def get_init_inputs():
    return [features, mixtures]
