"""Cross entropy per token."""

import torch
import torch.nn.functional as F
from torch import nn

tokens = 512
vocabulary = 16384


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, labels, reduction="none")


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(tokens, vocabulary), torch.randint(0, vocabulary, (tokens,))]


def get_init_inputs() -> list[object]:
    return []
