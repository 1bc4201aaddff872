"""Rows of a table, in blocks.

package: liger-kernel
problem: embedding
"""

import torch
from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction
from torch import nn


class NewModel(nn.Module):
    def __init__(self, vocabulary: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocabulary, dim))

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return LigerEmbeddingFunction.apply(self.weight, indices)
