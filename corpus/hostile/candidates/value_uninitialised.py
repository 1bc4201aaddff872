"""Never writes its output.

problem: row_softmax
expect: mismatch/numeric | mismatch/non_finite
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return torch.empty_like(x)
