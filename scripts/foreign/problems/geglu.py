"""A gate through the tanh form of GELU times a value."""

import torch
import torch.nn.functional as F
from torch import nn

batch_size = 8
tokens = 256
dim = 4096


class Model(nn.Module):
    def forward(self, gate: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return F.gelu(gate, approximate="tanh") * value


def get_inputs() -> list[torch.Tensor]:
    shape = (batch_size, tokens, dim)
    return [torch.randn(shape), torch.randn(shape)]


def get_init_inputs() -> list[object]:
    return []
