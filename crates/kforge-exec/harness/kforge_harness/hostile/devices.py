"""The part of a cell that knows its device, by the name of the device's package."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Protocol, cast

from ..shared import device_context
from ..shared.slot_layout import Plan


class Slots(Protocol):
    """Where inputs are, and how calls are made and timed from inside. What they claim decides nothing.

    Where calls can be launched before their inputs are there, it has `queue` and `collect` too; where launches can be
    recorded, `time_as_graph`.
    """

    inputs: list[Any]
    input_range: tuple[int, int]

    def run(self, model: Any, arguments: list[list[Any]], results: list[Any], clone: bool) -> tuple[int, int]:
        """Calls in a row on an idle device: their nanoseconds, and those of launching alone."""

    def locate(self, address: int) -> tuple[int, int]:
        """The piece of memory that an address lies in, and the offset, for the trusted side."""

    def take_fresh(self) -> list[tuple[int, int]]:
        """Files and sizes of pieces that the trusted side does not know yet."""

    def empty(self, make: Callable[[], Any]) -> Any:
        """Something made where results lie."""

    def fetch(self) -> None:
        """Brings the inputs of one call."""

    def wait(self) -> None:
        """Until what was called is done."""

    def warm_heap(self, nbytes: int) -> None:
        """Memory for so many bytes of results is made once, where making it would show in somebody's time."""

    def place_threads(self, apart: bool) -> None:
        """Threads on cores of their own, or free again, where calls are computed by threads."""


class CellModule(Protocol):
    """The module `cell` of a device's package."""

    def slots(self, plan: Plan, input_file: int, spec: dict[str, Any]) -> Slots:
        """Of this process, which has settled on the device."""

    def before_compiling(self) -> None:
        """Before torch's compiler is asked for the first time."""


def cell() -> CellModule:
    return cast(CellModule, importlib.import_module(f".{device_context.kind()}.cell", __package__))
