"""Memory of the GPU as tensors, where torch has not allocated it."""

from __future__ import annotations

from typing import Any

import torch

from .. import device_context


class _Raw:
    """What torch needs to see device memory that it has not allocated."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__: dict[str, Any] = {
            "data": (address, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 2,
        }


def device_bytes(address: int, nbytes: int) -> torch.Tensor:
    """Device memory at `address` as a flat tensor of bytes."""
    return torch.as_tensor(_Raw(address, nbytes), device=device_context.device())
