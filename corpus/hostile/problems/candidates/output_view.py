"""A view, as the reference's.

problem: output_view
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return x.view(-1, 8)
