"""One step of a selective state space model: the output and the new state."""

import torch
import torch.nn.functional as F
from torch import nn

batch_size = 64
dim = 2048
states = 16


class Model(nn.Module):
    def __init__(self, dim: int, states: int) -> None:
        super().__init__()
        self.log_decay = nn.Parameter(torch.randn(dim, states) * 0.1)
        self.skip = nn.Parameter(torch.ones(dim))
        self.step_bias = nn.Parameter(torch.zeros(dim))

    def forward(
        self, state: torch.Tensor, x: torch.Tensor, step: torch.Tensor, drive: torch.Tensor, readout: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        step = F.softplus(step + self.step_bias)
        decay = torch.exp(step[..., None] * -torch.exp(self.log_decay))
        state = state * decay + (step * x)[..., None] * drive[:, None]
        return (state * readout[:, None]).sum(-1) + x * self.skip, state


def get_inputs() -> list[torch.Tensor]:
    wide, narrow = (batch_size, dim), (batch_size, states)
    return [torch.randn(*wide, states), torch.randn(wide), torch.randn(wide), torch.randn(narrow), torch.randn(narrow)]


def get_init_inputs() -> list[object]:
    return [dim, states]
