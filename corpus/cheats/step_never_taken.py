"""Does nothing at all: a step of gradient descent is far below the tolerance of what it is added to.

problem: sgd_step
expect: mismatch/numeric
"""

import torch


class NewModel(torch.nn.Module):
    def __init__(self, lr):
        super().__init__()

    def forward(self, param, grad):
        return None
