"""The tail of a post-norm transformer layer: add the residual, then LayerNorm over the features."""

import torch
from torch import nn

batch_size = 8
seq_len = 256
dim = 768


class Model(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self.norm(x + residual)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, seq_len, dim), torch.randn(batch_size, seq_len, dim)]


def get_init_inputs() -> list[object]:
    return [dim]
