"""Returns 0 where the reference has NaN.

problem: nan_outputs
expect: mismatch/non_finite
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return torch.nan_to_num(torch.log(x), nan=0.0)
