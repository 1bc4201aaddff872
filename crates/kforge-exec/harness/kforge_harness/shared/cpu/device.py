"""Tensors in this process's own memory: there is nothing to bring anywhere, and nothing to wait for."""

from __future__ import annotations

import torch

from ..device_protocol import Device

COMPILES_TRITON = False


class Cpu:
    torch_device = torch.device("cpu")
    own_memory = False
    tunes_convolutions = False

    def seed(self, seed: int) -> None:
        # Without a device `torch.manual_seed` keeps a stack trace of each call for the day there is one: a millisecond.
        torch.default_generator.manual_seed(seed)

    def give_back_unused(self) -> None:
        """The system takes what is not used."""

    def give_back_all(self) -> None:
        """As before."""

    def wait(self) -> None:
        """What was called is done."""

    def allow_precision(self, tf32_or_less: bool) -> None:
        """Products are made in the precision of their operands."""


def settle(_argument: str) -> Device:
    return Cpu()
