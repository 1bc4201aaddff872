"""The framework's operators.

problem: outputs_nested
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return {"low": [torch.relu(-x), x.amin(dim=1)], "high": [torch.relu(x)]}
