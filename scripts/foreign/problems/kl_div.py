"""Kullback-Leibler divergence of two distributions, the prediction given as logarithms."""

import torch
import torch.nn.functional as F
from torch import nn

KFORGE = {"inputs": "given"}
rows = 1024
vocabulary = 8192


class Model(nn.Module):
    def forward(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.kl_div(prediction, target, reduction="batchmean")


def get_inputs() -> list[torch.Tensor]:
    return [torch.log_softmax(torch.randn(rows, vocabulary), -1), torch.softmax(torch.randn(rows, vocabulary), -1)]


def get_init_inputs() -> list[object]:
    return []
