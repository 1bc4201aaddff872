import torch
import torch.nn as nn


class Model(nn.Module):
    """A block behind a residual connection, scaled by a tenth as deep networks do."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.1 * self.fc(x)


batch_size = 16
width = 1024


def get_inputs():
    return [torch.randn(batch_size, width)]


def get_init_inputs():
    return [width]
