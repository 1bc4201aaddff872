"""Cross entropy per token.

package: unsloth
problem: cross_entropy
"""

import torch
from torch import nn
from unsloth.kernels.cross_entropy_loss import Fast_CrossEntropyLoss


class NewModel(nn.Module):
    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return Fast_CrossEntropyLoss.apply(logits, labels, 0.0, 0.0)
