"""Cap and cast over flat blocks.

package: sglang
problem: softcap
"""

import torch
from sglang.kernels.ops.activation.softcap import softcap_to_float32_logits
from torch import nn


class NewModel(nn.Module):
    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        out = torch.empty(logits.shape, dtype=torch.float32, device=logits.device)
        return softcap_to_float32_logits(logits, self.cap, out)
