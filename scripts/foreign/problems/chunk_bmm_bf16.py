"""Products of all pairs of tokens inside of each chunk."""

import torch
from torch import nn

batch_size = 4
tokens = 4096
width = 128
chunk = 256


class Model(nn.Module):
    def __init__(self, chunk: int) -> None:
        super().__init__()
        self.chunk = chunk

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = (x.unflatten(1, (-1, self.chunk)) for x in (a, b))
        return a @ b.transpose(-1, -2)


def get_inputs() -> list[torch.Tensor]:
    shape = (batch_size, tokens, width)
    return [torch.randn(shape).to(torch.bfloat16), torch.randn(shape).to(torch.bfloat16)]


def get_init_inputs() -> list[object]:
    return [chunk]
