"""A product of two matrices whose factors may be rounded to TF32."""

import torch
from torch import nn

KFORGE = {"mul": "tf32"}
size = 2048


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(size, size), torch.randn(size, size)]


def get_init_inputs() -> list[object]:
    return []
