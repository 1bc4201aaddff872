"""Running sums of gates that begin anew in every chunk."""

import torch
from torch import nn

batch_size = 8
tokens = 2048
heads = 64
chunk = 64


class Model(nn.Module):
    def __init__(self, chunk: int) -> None:
        super().__init__()
        self.chunk = chunk

    def forward(self, gates: torch.Tensor) -> torch.Tensor:
        batch, tokens, heads = gates.shape
        chunked = gates.view(batch, tokens // self.chunk, self.chunk, heads)
        return chunked.cumsum(2).view(batch, tokens, heads)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, tokens, heads)]


def get_init_inputs() -> list[object]:
    return [chunk]
