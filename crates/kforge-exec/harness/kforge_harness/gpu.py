"""Facts about the GPU at hand, asked of its driver: newer runtimes have dropped some of them from what torch shows."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

# Numbers of CUdevice_attribute.
_ATTRIBUTES = {
    "clock_khz": 13,
    "multiprocessors": 16,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "major": 75,
    "minor": 76,
}


def properties() -> dict[str, Any]:
    """Of the current device; empty where there is none."""
    if not torch.cuda.is_available():
        return {}
    index = torch.cuda.current_device()
    found: dict[str, Any] = {"name": torch.cuda.get_device_name(index)}
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        for name, number in _ATTRIBUTES.items():
            value = ctypes.c_int()
            if driver.cuDeviceGetAttribute(ctypes.byref(value), number, index) == 0:
                found[name] = value.value
    except OSError:
        found["major"], found["minor"] = torch.cuda.get_device_capability(index)
    return found
