"""A dropout layer: judged in evaluation mode, where it does nothing."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(torch.relu(self.linear(x)))


batch_size = 16
inputs = 32
outputs = 48


def get_inputs():
    return [torch.randn(batch_size, inputs)]


def get_init_inputs():
    return [inputs, outputs]
