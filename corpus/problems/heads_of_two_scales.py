import torch
import torch.nn as nn


class Model(nn.Module):
    """Two heads in one output, of which the first is a thousand times larger."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.large = nn.Linear(in_features, out_features, bias=False)
        self.small = nn.Linear(in_features, out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([1000.0 * self.large(x), self.small(x)], dim=-1)


batch_size = 64
in_features = 512
out_features = 256


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features]
