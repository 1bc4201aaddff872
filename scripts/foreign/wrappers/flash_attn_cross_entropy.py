"""Cross entropy per token.

package: flash-attn
problem: cross_entropy
"""

import torch
from flash_attn.ops.triton.cross_entropy import CrossEntropyLoss
from torch import nn


class NewModel(nn.Module):
    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return CrossEntropyLoss.apply(logits, labels)[0]
