"""The framework's operators.

problem: computes_gradients
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x, dy):
        y = torch.softmax(x, -1)
        return y * (dy - (y * dy).sum(-1, keepdim=True))
