"""Slots in the memory of a GPU, which its driver shares between processes."""

from __future__ import annotations

import os
from functools import partial

from ...shared.cuda import driver as cuda_driver
from ...shared.cuda import memory
from ..torch_device.slot_pool import SharedSlot


def device_slot(driver: cuda_driver.Driver, nbytes: int) -> SharedSlot:
    file, size = driver.allocate(nbytes)
    try:
        address = driver.map(file, size)
    except cuda_driver.DriverError:
        os.close(file)  # which would keep the memory
        raise
    return SharedSlot(file, memory.device_bytes(address, nbytes), partial(driver.unmap, address, size))
