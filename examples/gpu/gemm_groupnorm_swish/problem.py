"""A linear layer, GroupNorm, Swish, a weight and Swish again, as in KernelBench's level 2; strict float32."""

import torch
from torch import nn

batch_size = 1024
in_features = 4096
out_features = 4096
num_groups = 64


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, num_groups: int) -> None:
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.group_norm = nn.GroupNorm(num_groups, out_features)
        self.multiply_weight = nn.Parameter(torch.randn(out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.group_norm(self.gemm(x))
        x = x * torch.sigmoid(x)
        x = x * self.multiply_weight
        return x * torch.sigmoid(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, in_features)]


def get_init_inputs() -> list[object]:
    return [in_features, out_features, num_groups]
