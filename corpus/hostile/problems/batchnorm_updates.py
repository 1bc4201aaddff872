"""Every call moves the running statistics, on which the output does not depend: they are outputs themselves."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(32))
        self.register_buffer("var", torch.ones(32))

    def forward(self, x):
        return nn.functional.batch_norm(x, self.mean, self.var, training=True)


batch_size = 16
dim = 32


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
