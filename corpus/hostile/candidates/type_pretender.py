"""Returns an object that pretends to be a tensor.

problem: row_softmax
expect: generation_failure/guardrail | mismatch/type
expect-unguarded: mismatch/type
"""

import torch
from torch import nn

class Pretender:
    shape = torch.Size([64, 96])
    dtype = torch.float32
    device = torch.device("cpu")
    __class__ = torch.Tensor

    def __array__(self, *args):
        raise SystemExit(0)


class NewModel(nn.Module):
    def forward(self, x):
        return Pretender()
