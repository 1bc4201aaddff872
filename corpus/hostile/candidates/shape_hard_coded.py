"""Writes the sizes of the problem into the kernel; the contract names other sizes.

problem: contract_shapes
expect: mismatch/shape | mismatch/numeric | mismatch/non_finite | runtime_error/crash | runtime_error/exception
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return torch.softmax(x.reshape(-1)[: 16 * 32].reshape(16, 32), dim=1)
