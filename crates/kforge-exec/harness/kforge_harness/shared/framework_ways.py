"""Ways in which PyTorch runs a module: what is switched on for it, once and in each call.

Needs torch and nothing else: where PyTorch's own best beats every kernel, this text is handed out beside the problem.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

EAGER = "eager"
AUTOCAST, CAST_WEIGHTS = "autocast", "cast-weights"
CHANNELS_LAST, CUDNN_BENCHMARK = "channels_last", "cudnn-benchmark"

NARROW = {"bf16": torch.bfloat16, "fp16": torch.float16}
MODES = {"compile": "default", "max-autotune": "max-autotune", "reduce-overhead": "reduce-overhead"}
_CONVOLUTIONS = {
    *(torch.conv1d, torch.conv2d, torch.conv3d),
    *(torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d),
}
_PRODUCTS = _CONVOLUTIONS | {
    *(nn.functional.linear, nn.functional.bilinear, nn.functional.scaled_dot_product_attention),
    *(torch.matmul, torch.mm, torch.bmm, torch.mv, torch.einsum, torch.addmm, torch.baddbmm, torch.addmv),
    *(torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.__rmatmul__, torch.Tensor.mm, torch.Tensor.bmm),
}
_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


class Products(TorchFunctionMode):
    """Sees which tensors are multiplied with which, as matrices or in convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.convolves = False
        self.multiplied: set[int] = set()  # where the memory of their operands begins

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _PRODUCTS:
            self.convolves = self.convolves or func in _CONVOLUTIONS
            tree_map_only(torch.Tensor, self._note, (args, kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _note(self, tensor: torch.Tensor) -> None:
        self.multiplied.add(tensor.untyped_storage().data_ptr())


def products_of(model: nn.Module, arguments: list[Any]) -> Products:
    products = Products()
    with torch.no_grad(), products:
        model(*arguments)
    return products


class InItsWay(nn.Module):
    """The reference with some of PyTorch's own switches on; its results have the dtypes that they should have."""

    def __init__(self, model: nn.Module, options: list[str], narrow: torch.dtype, dtypes: list[torch.dtype]) -> None:
        super().__init__()
        self.model = model
        self.casts = AUTOCAST in options or CAST_WEIGHTS in options
        self.channels_last = CHANNELS_LAST in options
        self.narrow = narrow
        self.device_type = next((p.device.type for p in model.parameters()), "cpu")
        self.widens = narrow not in dtypes

    def forward(self, *arguments: Any) -> Any:
        if self.channels_last:
            arguments = tree_map_only(torch.Tensor, _channels_last, arguments)
        if not self.casts:
            return self.model(*arguments)
        with torch.autocast(self.device_type, dtype=self.narrow):
            result = self.model(*arguments)
        return tree_map_only(torch.Tensor, self._widened, result) if self.widens else result

    def _widened(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.float() if tensor.dtype == self.narrow else tensor


def prepared(
    model: nn.Module, options: list[str], arguments: list[Any], narrow: torch.dtype, dtypes: list[torch.dtype]
) -> nn.Module:
    """What is done once is done here, as a candidate may do it in `prepare`. `dtypes` are those of the results."""
    if CAST_WEIGHTS in options:
        _cast_weights(model, products_of(model, arguments), narrow)
    if CHANNELS_LAST in options:
        for parameter in model.parameters():
            parameter.data = _channels_last(parameter.data)
    if CUDNN_BENCHMARK in options:
        torch.backends.cudnn.benchmark = True
    return InItsWay(model, options, narrow, dtypes) if options else model


def _cast_weights(model: nn.Module, products: Products, narrow: torch.dtype) -> None:
    for parameter in model.parameters():
        if parameter.dtype == torch.float32 and parameter.untyped_storage().data_ptr() in products.multiplied:
            parameter.data = parameter.data.to(narrow)


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    wanted = _LAST.get(tensor.dim())
    return tensor.contiguous(memory_format=wanted) if wanted else tensor
