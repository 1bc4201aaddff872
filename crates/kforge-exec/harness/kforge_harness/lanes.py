"""Slots of cells on a GPU, seen from the trusted side: inputs are laid there, outputs are taken from there.

Each slot is an allocation of its own, made for nothing else: what lies beside it belongs to nobody. It crosses into a
cell as a file descriptor. Where the driver cannot share memory of the device, a file of the host takes its place.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from . import cuda_driver, home
from .places import OPEN, Plan

_POISON = 0xFF
_SMALLEST_FLUSH = 128 << 20


@dataclass(frozen=True)
class SharedSlot:
    """A file descriptor, the bytes behind it, and how they are given up."""

    file: int
    memory: torch.Tensor
    release: Callable[[], None]


MakeSlot = Callable[[int], SharedSlot]


def device_slot(driver: cuda_driver.Driver, nbytes: int) -> SharedSlot:
    file, size = driver.allocate(nbytes)
    try:
        address = driver.map(file, size)
    except cuda_driver.DriverError:
        os.close(file)  # which would keep the memory
        raise
    return SharedSlot(file, home.device_bytes(address, nbytes), partial(driver.unmap, address, size))


def host_slot(nbytes: int) -> SharedSlot:
    file = os.memfd_create("kforge-slot", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, nbytes)
    # A cell that made it smaller would end whoever looks at what is gone.
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    # Its mapping ends with the tensor.
    return SharedSlot(file, torch.frombuffer(mmap.mmap(file, nbytes), dtype=torch.uint8), lambda: None)


class Digest:
    """Of bytes on the device, under a key of this session.

    A sum of 32-bit words, each times a random 64-bit number, and of pieces in the same way: whoever does not know the
    numbers and changes bytes keeps the sum once in some 2^28 times.
    """

    _WORDS, _PIECES = 1 << 22, 1 << 14

    def __init__(self) -> None:
        # Not the ordinary generator, whose seeds are ours to give but for anybody to guess.
        generator = torch.Generator(home.device()).manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)
        self._key, self._piece_key = (
            torch.randint(-(1 << 63), (1 << 63) - 1, (count,), generator=generator, device=home.device())
            for count in (self._WORDS, self._PIECES)
        )

    def __call__(self, region: torch.Tensor) -> torch.Tensor:
        pieces = region.view(torch.int32).split(self._WORDS)
        sums = torch.stack([(piece.to(self._key) * self._key[: piece.numel()]).sum() for piece in pieces])
        return (sums * self._piece_key[: len(sums)]).sum()


class Lane:
    """Inputs and outputs of one cell. `taken` is for the outputs of whichever lane handed over last: a large problem has no
    room for a copy of each, so what was handed over here is known by its digest."""

    def __init__(self, plan: Plan, make_slot: MakeSlot, taken: list[torch.Tensor], digest: Digest) -> None:
        self._taken, self._digest = taken, digest
        self._sums: list[torch.Tensor] = []
        first = make_slot(plan.input_size)
        try:
            second = make_slot(plan.output_size)
        except cuda_driver.DriverError:
            os.close(first.file)
            first.release()
            raise
        self._slots = (first, second)
        self.files = [slot.file for slot in self._slots]
        self._inputs, self._outputs = plan.inputs(first.memory), plan.outputs(second.memory)
        self._gate = plan.gate(first.memory)
        self.wipe()

    def release(self) -> None:
        """Once the process that used it has ended."""
        home.wait()
        for slot in self._slots:
            slot.release()

    def shut(self, count: int) -> None:
        """What is launched from now on waits, and finds nothing in the first places until they are laid."""
        self._gate.zero_()
        for place in range(count):
            self._inputs[place].zero_()
            self._outputs[place].fill_(_POISON)

    def lay(self, regions: list[torch.Tensor]) -> None:
        for place, region in enumerate(regions):
            self._inputs[place][: region.numel()].copy_(region)

    def poison(self) -> None:
        self._outputs[0].fill_(_POISON)

    def open(self) -> None:
        if not self._gate.is_cuda:  # the device's own order of work does not hold for memory of the host
            home.wait()
        self._gate.fill_(OPEN)

    def take(self, count: int) -> bool:
        """Copies the outputs; false where one was still being written."""
        for place in range(count):
            self._taken[place].copy_(self._outputs[place])
        home.wait()
        self._sums = [self._digest(taken) for taken in self._taken[:count]]
        return all(_same(self._outputs[place], self._taken[place]) for place in range(count))

    def still_there(self, count: int) -> bool:
        return all(bool(self._digest(self._outputs[place]) == self._sums[place]) for place in range(count))

    def unchanged(self, regions: list[torch.Tensor]) -> bool:
        return all(_same(self._inputs[place][: r.numel()], r) for place, r in enumerate(regions))

    def wipe(self) -> None:
        for slot in self._slots:
            slot.memory.zero_()


class Flush:
    """Empties the level-2 cache: twice its size is written and read."""

    def __init__(self, l2_bytes: int) -> None:
        self.nbytes = max(2 * l2_bytes, _SMALLEST_FLUSH)
        self._buffer = torch.zeros(self.nbytes // 8, dtype=torch.int64, device=home.device())

    def __call__(self) -> None:
        self._buffer.add_(1)
        self._buffer.sum()


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    # Regions are multiples of 256 bytes: eight at a time, and bits instead of numbers, since NaN differs from itself.
    return torch.equal(a.to(b.device).view(torch.int64), b.view(torch.int64))
