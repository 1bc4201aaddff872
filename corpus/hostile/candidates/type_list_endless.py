"""Returns a list that contains itself.

problem: row_softmax
expect: mismatch/structure | mismatch/type
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        endless = []
        endless.append(endless)
        return endless
