"""The input layer of a BERT-like encoder: look up token rows, add the position rows, LayerNorm the sum."""

import torch
from torch import nn

batch_size = 8
seq_len = 512
dim = 512
vocabulary = 8192


class Model(nn.Module):
    def __init__(self, vocabulary: int, seq_len: int, dim: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, dim)
        self.positions = nn.Parameter(0.02 * torch.randn(seq_len, dim))
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.norm(self.tokens(ids) + self.positions[: ids.shape[1]])


def get_inputs() -> list[torch.Tensor]:
    return [torch.randint(0, vocabulary, (batch_size, seq_len))]


def get_init_inputs() -> list[object]:
    return [vocabulary, seq_len, dim]
