"""A linear layer and the square of ReLU in bfloat16."""

import torch
import torch.nn.functional as F
from torch import nn

KFORGE = {"mul": "bf16"}
rows = 2048
width = 1024
dim = 1024


class Model(nn.Module):
    def __init__(self, width: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter((torch.randn(dim, width) * width**-0.5).to(torch.bfloat16))
        self.bias = nn.Parameter(torch.zeros(dim, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(F.linear(x.float(), self.weight.float(), self.bias.float())).square().to(x.dtype)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(rows, width).to(torch.bfloat16)]


def get_init_inputs() -> list[object]:
    return [width, dim]
