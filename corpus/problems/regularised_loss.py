import torch
import torch.nn as nn


class Model(nn.Module):
    """Squared error with a small penalty on activations."""

    def __init__(self) -> None:
        super().__init__()
        self.penalty = 1e-6

    def forward(self, prediction: torch.Tensor, target: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return ((prediction - target) ** 2).mean() + self.penalty * (hidden**2).mean()


rows = 512
outputs = 1024
width = 2048


def get_inputs():
    return [torch.randn(rows, outputs), torch.randn(rows, outputs), torch.randn(rows, width)]


def get_init_inputs():
    return []
