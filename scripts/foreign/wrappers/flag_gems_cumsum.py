"""Running sums, a row per program.

package: flag-gems
problem: cumsum
"""

import torch
from flag_gems.ops.cumsum import cumsum_wrapper
from torch import nn


class NewModel(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return cumsum_wrapper(x, -1)
