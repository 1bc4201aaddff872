"""Any device that torch knows, by the name of its backend: `xpu`, `mps`, and `cuda` for what stands behind that name.

Backends differ in what they tell. What one of them does not have is done without.
"""

from __future__ import annotations

from typing import Any

import torch

from ..device_protocol import Device

COMPILES_TRITON = False  # nobody has looked whether it can
_HELD_BACK = 1 / 64  # of a device's memory


class TorchDevice:
    own_memory = True
    tunes_convolutions = False

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.torch = getattr(torch, backend)
        self.torch_device = torch.device(backend, 0)
        torch.zeros(1, device=self.torch_device)  # where something is wrong with it, it is here that this shows

    def seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def give_back_unused(self) -> None:
        held, used = self._told("memory_reserved"), self._told("memory_allocated")
        if held is None or used is None or held - used > self.total_memory() * _HELD_BACK:
            self.give_back_all()

    def give_back_all(self) -> None:
        getattr(self.torch, "empty_cache", _nothing)()

    def wait(self) -> None:
        self.torch.synchronize()

    def allow_precision(self, tf32_or_less: bool) -> None:
        torch.set_float32_matmul_precision("high" if tf32_or_less else "highest")
        torch.backends.cudnn.allow_tf32 = tf32_or_less  # MIOpen's too

    # For those who build on this, on either side.

    def total_memory(self) -> int:
        """Of the device; 0 where nobody knows."""
        properties = self._told("get_device_properties", 0)
        recommended = self._told("recommended_max_memory")
        return int(getattr(properties, "total_memory", 0) or recommended or 0)

    def free_memory(self) -> int | None:
        told = self._told("mem_get_info")
        return int(told[0]) if told else None

    def name(self) -> str:
        return str(self._told("get_device_name", 0) or self.backend)

    def _told(self, what: str, *arguments: Any) -> Any:
        """Nothing where this backend does not say."""
        try:
            return getattr(self.torch, what)(*arguments)
        except (AttributeError, AssertionError, RuntimeError, NotImplementedError):
            return None


def _nothing() -> None:
    """For a backend that holds nothing back."""


def settle(backend: str) -> Device:
    return TorchDevice(backend)
