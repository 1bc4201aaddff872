"""Sparsemax over the last dimension: the projection on the simplex."""

import torch
from torch import nn

rows = 2048
dim = 1024


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ordered = x.sort(dim=-1, descending=True).values
        count = torch.arange(1, x.shape[-1] + 1, device=x.device)
        total = ordered.cumsum(-1)
        support = (1 + count * ordered > total).sum(-1, keepdim=True)
        threshold = (total.gather(-1, support - 1) - 1) / support
        return torch.clamp(x - threshold, min=0)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(rows, dim)]


def get_init_inputs() -> list[object]:
    return []
