"""Running sums of chunks, several heads per program.

package: mamba-ssm
problem: step_cumsum
"""

import torch
from mamba_ssm.ops.triton.ssd_chunk_state import _chunk_cumsum_fwd
from torch import nn


class NewModel(nn.Module):
    def __init__(self, heads: int, chunk: int) -> None:
        super().__init__()
        self.decay = nn.Parameter(-torch.rand(heads) - 0.1)
        self.chunk = chunk

    def forward(self, step: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return _chunk_cumsum_fwd(step, self.decay, self.chunk, dt_softplus=True)
