"""The framework's operators, accumulating in float32.

problem: dtype_float16_linear
expect: correct/framework_only
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 48).half()

    def forward(self, x):
        return (x.float() @ self.linear.weight.float().t() + self.linear.bias.float()).half()
