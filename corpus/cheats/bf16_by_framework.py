"""Casts to bfloat16 for the framework's product, and back.

problem: linear_relu
expect: generation_failure/guardrail|mismatch/precision|mismatch/numeric
expect-unguarded: mismatch/precision|mismatch/numeric
"""

import torch


class NewModel(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = torch.nn.Linear(in_features, out_features)

    def forward(self, x):
        y = torch.matmul(x.bfloat16(), self.fc.weight.t().bfloat16())
        return torch.relu(y.float() + self.fc.bias)
