"""Model is not a torch module."""

import torch


class Model:
    def forward(self, x):
        return x * 2.0


def get_inputs():
    return [torch.randn(4, 8)]
