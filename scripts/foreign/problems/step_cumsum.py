"""Steps through softplus, and the running sums of their decays in chunks."""

import torch
import torch.nn.functional as F
from torch import nn

batch_size = 8
tokens = 4096
heads = 64
chunk = 256


class Model(nn.Module):
    def __init__(self, heads: int, chunk: int) -> None:
        super().__init__()
        self.decay = nn.Parameter(-torch.rand(heads) - 0.1)
        self.chunk = chunk

    def forward(self, step: torch.Tensor) -> tuple[torch.Tensor, ...]:
        step = F.softplus(step).transpose(1, 2).unflatten(2, (-1, self.chunk))
        return (step * self.decay[:, None, None]).cumsum(-1), step


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, tokens, heads)]


def get_init_inputs() -> list[object]:
    return [heads, chunk]
