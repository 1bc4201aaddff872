"""The eight largest elements of each row in order, and where they are."""

import torch
from torch import nn

rows = 512
dim = 4096
count = 8


class Model(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = torch.topk(x, self.count, dim=-1)
        return found.values, found.indices


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(rows, dim)]


def get_init_inputs() -> list[object]:
    return [count]
