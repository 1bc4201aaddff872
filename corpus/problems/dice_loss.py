import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 8
size = 4096


class Model(nn.Module):
    """Binary cross entropy of probabilities and Dice, as one number: inputs outside of [0, 1] are an error."""

    def forward(self, p: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        dice = (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)
        return F.binary_cross_entropy(p, target) + 1 - dice


def get_inputs():
    return [torch.rand(batch, size), (torch.rand(batch, size) > 0.5).float()]


def get_init_inputs():
    return []
