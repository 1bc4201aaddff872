"""Rotary embedding of both in one launch, several heads per program.

package: unsloth
problem: rope
"""

import torch
from torch import nn
from unsloth.kernels.rope_embedding import _bshd_buffer, _eager_kernel, _rope_launch


class NewModel(nn.Module):
    def forward(
        self, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        rotated_q, rotated_k = _bshd_buffer(q), _bshd_buffer(k)
        _rope_launch(q, rotated_q, k, rotated_k, cos, sin, None, False, False, True, _eager_kernel)
        return rotated_q, rotated_k
