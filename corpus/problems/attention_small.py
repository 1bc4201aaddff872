import math

import torch
import torch.nn as nn


class Model(nn.Module):
    """Scaled dot-product attention, few heads, short sequences."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        return torch.matmul(torch.softmax(scores, dim=-1), v)


batch_size = 2
heads = 4
length = 128
width = 32


def get_inputs():
    shape = (batch_size, heads, length, width)
    return [torch.rand(shape), torch.rand(shape), torch.rand(shape)]


def get_init_inputs():
    return []
