"""GeGLU over flat blocks.

package: unsloth
problem: geglu
"""

import torch
from torch import nn
from unsloth.kernels.geglu import geglu_approx_forward_kernel


class NewModel(nn.Module):
    def forward(self, gate: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return geglu_approx_forward_kernel(gate, value)
