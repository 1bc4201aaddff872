"""Returns a tensor of its own class that claims to equal everything.

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: mismatch/type | runtime_error/exception
"""

import torch
from torch import nn

class Equal(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return True


class NewModel(nn.Module):
    def forward(self, x):
        return x.clone().as_subclass(Equal)
