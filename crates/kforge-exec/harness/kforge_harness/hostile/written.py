"""What a module must write besides what it returns, in the process that runs it: put back before each call, read after it.

Inputs are read where the referee laid them, whatever became of the tensors that `forward` was given. Buffers are known by
the reference's names and found as weights are: by name, then by shape in order of registration.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..shared.align import places
from ..shared.module_state import State, owner_of
from .failure import Failure

Named = tuple[str, torch.Tensor]


class Writes:
    """What one construction has to write."""

    def __init__(self, model: Any, spec: dict[str, Any], weights: list[Named]) -> None:
        """`spec` is the variant's, `weights` are the reference's. Before `prepare`, which may give tensors other shapes."""
        self.inputs: list[int] = spec["written_inputs"]
        self._buffers: list[str] = spec["written_buffers"]
        self.names: list[str] = spec["written_names"]
        self._model = model
        found = places(model, weights) if self._buffers else {}
        self._paths = {name: found[name].name for name in self._buffers if name in found}
        self._state = State(model, [])

    def settle(self, weights: list[Named]) -> None:
        """Once the module was prepared, and whenever it was given other weights: calls begin with these values."""
        given = dict(weights)
        here = {name: path for name, path in self._paths.items() if self._fits(path, given[name])}
        self._state = State(self._model, list(here.values()), [given[name] for name in here])

    def restore(self) -> None:
        """Before a call, outside of every clock."""
        self._state.restore()

    def gather(self, inputs: list[torch.Tensor]) -> list[Named]:
        """After a call: what it had to write, as it is now, in the order of the outputs. `inputs` lie over the slot, all of them."""
        names = iter(self.names)
        written = [(next(names), inputs[index]) for index in self.inputs]
        return written + [
            (called, self._buffer(name, called)) for name, called in zip(self._buffers, names, strict=True)
        ]

    def _fits(self, path: str, given: torch.Tensor) -> bool:
        """What does not is refused after the call, in words."""
        tensor = _tensor_at(self._model, path)
        return tensor is not None and tensor.shape == given.shape

    def _buffer(self, name: str, called: str) -> torch.Tensor:
        path = self._paths.get(name)
        tensor = None if path is None else _tensor_at(self._model, path)
        if tensor is None:
            raise Failure(
                "structure",
                f"{called}: the reference writes it, and the module has no tensor of that name or shape; "
                "register a buffer and write to it",
            )
        # A parameter may hold it too. Whatever else is not a plain tensor is refused with the other outputs.
        return tensor.detach() if type(tensor) is nn.Parameter else tensor


def _tensor_at(model: Any, path: str) -> torch.Tensor | None:
    try:
        owner, leaf = owner_of(model, path)
        found = getattr(owner, leaf)
    except AttributeError:
        return None
    return found if isinstance(found, torch.Tensor) else None
