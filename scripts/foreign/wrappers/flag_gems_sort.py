"""Radix sort in four-bit passes.

package: flag-gems
problem: sort
"""

import torch
from flag_gems.ops.sort import sort_stable
from torch import nn


class NewModel(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return sort_stable(x, stable=True)
