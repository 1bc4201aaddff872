import torch
import torch.nn as nn

rows = 128
bins = 65
samples = 128


class Model(nn.Module):
    """Inverse transform sampling along rays: the cumulative distributions are sorted, and new for each call."""

    def forward(self, cdf: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return torch.searchsorted(cdf, u, right=True)


def get_inputs():
    return [torch.sort(torch.rand(rows, bins), dim=-1).values, torch.rand(rows, samples)]


def get_init_inputs():
    return []
