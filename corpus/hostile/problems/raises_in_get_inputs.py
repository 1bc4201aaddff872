"""get_inputs raises."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0


def get_inputs():
    raise RuntimeError("boom in get_inputs")


def get_init_inputs():
    return []
