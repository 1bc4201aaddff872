"""Cross-entropy of a batch of logits over a large vocabulary."""

import torch
from torch import nn
from torch.nn import functional as F

batch_size = 2048
classes = 32000


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, targets)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, classes), torch.randint(0, classes, (batch_size,))]


def get_init_inputs() -> list[object]:
    return []
