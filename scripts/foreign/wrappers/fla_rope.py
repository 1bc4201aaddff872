"""Rotary embedding, autotuned.

package: fla-core
problem: rope
"""

import torch
from fla.modules.rotary.ops import rotary_embedding_fwdbwd
from torch import nn


class NewModel(nn.Module):
    def forward(
        self, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        rotated = [rotary_embedding_fwdbwd(x.transpose(1, 2).contiguous(), cos, sin) for x in (q, k)]
        return rotated[0].transpose(1, 2), rotated[1].transpose(1, 2)
