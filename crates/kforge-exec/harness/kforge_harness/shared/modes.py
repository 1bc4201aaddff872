"""What the harness's own dispatch modes have in common."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Taken when the harness is imported, before any candidate is: operators of other namespaces are not the framework's.
_FRAMEWORK = frozenset(name.partition("::")[0] for name in torch._C._dispatch_get_all_op_names())


def of_calls(autograd: bool) -> Any:
    """How a module is called: without gradients. One that uses autograd itself finds it able to work."""
    return torch.no_grad() if autograd else torch.inference_mode()


class Watch(TorchDispatchMode):
    """A dispatch mode that only looks on."""

    # `torch.library.wrap_triton`, `torch.cond` and the like are no operators of the dispatcher. Without this torch refuses
    # to call them under a mode; with it they come to `__torch_dispatch__` like all others, and have no overloads.
    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled under these modes. The default would import torch._dynamo at the first operator: a second
        # for each cell, and Triton with it, which a cell must first switch to its interpreter.
        return False

    def inside(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The operator's own code with this mode on, so that the operators that it is made of are seen too.

        The mode itself must be passed over once, or it would be asked about the same operator for ever.
        """
        key = _backend(args, kwargs)
        if key is None:
            return func(*args, **kwargs)
        with self:
            return func.redispatch(torch._C.DispatchKeySet(key), *args, **kwargs)


class Doubles(Watch):
    """Where a reference runs in doubles, its own dtypes mean doubles too: `x.float()` must not leave some of it behind."""

    def __init__(self, own: set[torch.dtype]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._own = own

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        widened = {name: self._widened(value) for name, value in (kwargs or {}).items()}
        return func(*map(self._widened, args), **widened)

    def _widened(self, value: Any) -> Any:
        return torch.float64 if isinstance(value, torch.dtype) and value in self._own else value


def name_of(func: Any) -> str:
    """`softmax` for `aten::softmax.int`; a higher order operator has but one name."""
    name: str = func.name() if isinstance(func, HigherOrderOperator) else func.overloadpacket.__name__
    return name


def is_own(func: Any) -> bool:
    """Whether an operator was registered after the harness: by a candidate, or by a library that it imported."""
    return not isinstance(func, HigherOrderOperator) and func.namespace not in _FRAMEWORK


def launches_triton(func: Any) -> bool:
    """`wrap_triton` in a forward: a kernel of somebody's own, launched by way of torch."""
    return isinstance(func, HigherOrderOperator) and func.name().startswith("triton_kernel_wrapper")


def _backend(args: Any, kwargs: Any) -> Any:
    keys = [torch._C._dispatch_keys(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    for key in (torch._C.DispatchKey.CUDA, torch._C.DispatchKey.CPU):
        if any(found.has(key) for found in keys):
            return key
    return None
