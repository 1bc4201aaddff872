"""Torch's CPU, as if tensors had to be brought there."""

from __future__ import annotations

import torch

from ..device_protocol import Device
from ..torch_device.device import TorchDevice

COMPILES_TRITON = False


class MadeUp(TorchDevice):
    def __init__(self) -> None:
        super().__init__("cpu")
        self.torch_device = torch.device("cpu")

    def total_memory(self) -> int:
        return 8 << 30

    def name(self) -> str:
        return "a device that is made up"


def settle(_argument: str) -> Device:
    return MadeUp()
