"""Cross entropy with an online softmax.

package: liger-kernel
problem: cross_entropy
"""

import torch
from liger_kernel.ops.cross_entropy import cross_entropy_forward
from torch import nn


class NewModel(nn.Module):
    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return cross_entropy_forward(logits, labels, None, -100, 0.0, 0.0, "none", None, False)[0]
