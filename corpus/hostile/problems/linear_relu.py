"""A linear layer with weights, then ReLU."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.relu(self.linear(x))


batch_size = 16
inputs = 32
outputs = 48


def get_inputs():
    return [torch.randn(batch_size, inputs)]


def get_init_inputs():
    return [inputs, outputs]
