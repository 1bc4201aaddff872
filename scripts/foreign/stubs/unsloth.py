"""Instead of what a package of twenty others would answer for one NVIDIA GPU."""

from contextlib import nullcontext

import torch
import triton.language as tl
from triton.language.extra import libdevice

MAX_FUSED_SIZE = 65536
triton_tanh = libdevice.tanh
triton_cast = tl.cast
# Switches that the package reads from the environment, as they are without it.
_NORM_ARCH_WARPS = True
_ENABLED = hasattr(torch._C, "_cuda_getCurrentRawStream")


def torch_gpu_device(device: object) -> nullcontext[None]:
    return nullcontext()


def is_hip() -> bool:
    return False


def is_cdna() -> bool:
    return False
