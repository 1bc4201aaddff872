"""Maximum of rows with its index.

package: flag-gems
problem: max_dim
"""

import torch
from flag_gems.ops.max import max_dim
from torch import nn


class NewModel(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = max_dim(x, -1)
        return found.values, found.indices
