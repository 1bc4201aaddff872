"""Zeroes its input and returns the right answer for zeros.

problem: linear_relu
expect: mismatch/input_mutated|mismatch/numeric
expect-unguarded: mismatch/input_mutated|mismatch/numeric
"""

import torch


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)

    def forward(self, x):
        x.zero_()
        return torch.relu(self.fc.bias).expand(x.shape[0], -1).contiguous()
