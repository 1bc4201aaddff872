import torch
import torch.nn as nn


class Model(nn.Module):
    """A small product with a long reduction (8192): the order of accumulation shows."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


M = 64
N = 32
K = 8192


def get_inputs():
    return [torch.rand(M, K), torch.rand(K, N)]


def get_init_inputs():
    return []
