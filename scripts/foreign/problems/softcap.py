"""Logits capped smoothly, from bfloat16 to float32."""

import torch
from torch import nn

rows = 512
vocabulary = 32768
cap = 30.0


class Model(nn.Module):
    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return torch.tanh(logits.float() / self.cap) * self.cap


def get_inputs() -> list[torch.Tensor]:
    return [(torch.randn(rows, vocabulary) * 20).to(torch.bfloat16)]


def get_init_inputs() -> list[object]:
    return [cap]
