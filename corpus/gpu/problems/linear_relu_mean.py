import torch
import torch.nn as nn


class Model(nn.Module):
    """A product, a ReLU, and the mean of everything: errors of the product average out."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.fc = nn.Linear(in_features, out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fc(x)).mean()


batch_size = 4096
in_features = 1024
out_features = 4096


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features]
