"""The framework's operators.

problem: outputs_tuple
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return x.sum(dim=1), torch.relu(x)
