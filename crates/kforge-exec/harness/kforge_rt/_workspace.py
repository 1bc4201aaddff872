"""Scratch memory for kernels."""

from __future__ import annotations

import torch

_workspaces: dict[tuple[str, int, str], torch.Tensor] = {}


def workspace(
    nbytes: int, *, zeroed: bool = False, persistent: bool = False, device: str = "cpu", key: str = ""
) -> torch.Tensor:
    """Scratch memory as a uint8 tensor. A persistent one is the same memory at every call with the same size and `key`."""
    found = _workspaces.get((key, nbytes, device)) if persistent else None
    if found is None:
        found = torch.empty(nbytes, dtype=torch.uint8, device=device)
        if zeroed:
            found.zero_()
        if persistent:
            _workspaces[(key, nbytes, device)] = found
    elif zeroed:
        found.zero_()
    return found
