"""The framework's operators.

problem: inputs_mask_additive
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x, mask):
        return torch.softmax(x + mask, dim=1)
