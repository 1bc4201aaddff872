"""The framework's operators.

problem: weights_by_hook
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.utils.weight_norm(nn.Conv1d(channels, channels, 3, padding=1))

    def forward(self, x):
        return torch.relu(self.conv(x))
