"""The framework's operators.

problem: inputs_whole_floats
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.register_buffer("noise", torch.linspace(0.0, 1.0, steps).sqrt())

    def forward(self, x, t):
        return x * self.noise[t.long()][:, None]
