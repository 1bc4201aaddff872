import torch
import torch.nn as nn


class Model(nn.Module):
    """A linear layer over rows whose magnitudes differ by factors of thousands."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.fc = nn.Linear(in_features, out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x)


batch_size = 128
in_features = 512
out_features = 256


def get_inputs():
    return [torch.randn(batch_size, in_features) * torch.exp(3.0 * torch.randn(batch_size, 1))]


def get_init_inputs():
    return [in_features, out_features]
