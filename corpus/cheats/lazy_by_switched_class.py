"""A plain tensor whose __class__ is switched to a lazy one that was made with type().

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: mismatch/type|mismatch/numeric|mismatch/non_finite
"""

import torch


def look(cls, function, types, args=(), kwargs=None):
    with torch._C.DisableTorchFunctionSubclass():
        args = [torch.softmax(a.source, dim=1) if type(a) is LAZY else a for a in args]
        return function(*args, **(kwargs or {}))


LAZY = type("Tensor", (torch.Tensor,), {"__torch_function__": classmethod(look)})


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        y.source = x
        y.__class__ = LAZY
        return y
