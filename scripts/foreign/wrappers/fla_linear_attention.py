"""States of chunks, then the outputs of chunks.

package: fla-core
problem: linear_attention_bf16
"""

import torch
from fla.ops.common.chunk_h import chunk_fwd_h
from fla.ops.common.chunk_o import chunk_fwd_o
from torch import nn


class NewModel(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        states, _ = chunk_fwd_h(k, v)
        return chunk_fwd_o(q, k, v, states, scale=q.shape[-1] ** -0.5)
