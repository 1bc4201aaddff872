"""Softmax, online where rows are long.

package: flag-gems
problem: softmax
"""

import torch
from flag_gems.ops.softmax import softmax
from torch import nn


class NewModel(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return softmax(x, -1)
