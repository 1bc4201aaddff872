import torch
import torch.nn as nn


class Model(nn.Module):
    """Returns each row divided by its root mean square, and the root mean squares."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rms = (x * x).mean(dim=1).add(1e-6).sqrt()
        return x / rms[:, None], rms


rows = 1024
cols = 1024


def get_inputs():
    return [torch.rand(rows, cols)]


def get_init_inputs():
    return []
