"""Returns a tensor subclass that computes only when somebody looks at it.

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: mismatch/type|mismatch/numeric|mismatch/non_finite
"""

import torch


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            args = [torch.softmax(a.source, dim=1) if type(a) is Lazy else a for a in args]
            return function(*args, **(kwargs or {}))


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x).as_subclass(Lazy)
        y.source = x
        return y
