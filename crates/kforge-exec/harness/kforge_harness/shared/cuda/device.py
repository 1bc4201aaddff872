"""The one NVIDIA GPU that this process sees."""

from __future__ import annotations

import torch

from ..device_protocol import Device

COMPILES_TRITON = True
_HELD_BACK = 1 / 64  # of a device's memory


class Cuda:
    torch_device = torch.device("cuda", 0)
    own_memory = True
    tunes_convolutions = True

    def seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def give_back_unused(self) -> None:
        unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        if unused > torch.cuda.get_device_properties(0).total_memory * _HELD_BACK:
            torch.cuda.empty_cache()

    def give_back_all(self) -> None:
        torch.cuda.empty_cache()

    def wait(self) -> None:
        torch.cuda.synchronize()

    def allow_precision(self, tf32_or_less: bool) -> None:
        torch.backends.cuda.matmul.allow_tf32 = tf32_or_less
        torch.backends.cudnn.allow_tf32 = tf32_or_less


def settle(_argument: str) -> Device:
    torch.cuda.init()
    torch.zeros(1, device="cuda")  # makes torch's context the current one of this thread
    return Cuda()
