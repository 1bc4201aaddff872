"""Kullback-Leibler divergence, a row per program.

package: liger-kernel
problem: kl_div
"""

import torch
from liger_kernel.ops.kl_div import kldiv_forward_triton
from torch import nn


class NewModel(nn.Module):
    def forward(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return kldiv_forward_triton(prediction, target, False, "batchmean", 1e-10)
