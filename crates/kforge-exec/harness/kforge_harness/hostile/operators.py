"""What a module does: operators with time, bytes and floating-point operations; kernels on a GPU. For the profile only."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ..shared import device_context
from ..shared.modes import Watch, name_of, of_calls
from .audit import _NOT_COMPUTING

_MOST = 12
_MOST_KERNELS = 60
_LONGEST_NAME = 300
# Rows that are the profiler's own work, or waiting for the device: nobody's operator and nobody's kernel.
_OVERHEAD = frozenset(
    {
        "Activity Buffer Request",
        "Buffer Flush",
        "Command Buffer Full",
        "Instrumentation",
        "Lazy Function Loading",
        "Resource",
        "Runtime Triggered Module Loading",
        "cudaDeviceSynchronize",
        "cudaStreamSynchronize",
    }
)


class Tally(Watch):
    """Bytes and elements of every operator that computes, each of its tensors once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes: dict[str, int] = {}
        self.elements: dict[str, int] = {}
        self.calls: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = name_of(func)
        if name not in _NOT_COMPUTING or name in ("clone", "copy_", "_to_copy"):  # copies compute nothing and move much
            tensors = [t for t in tree_leaves((args, kwargs, result)) if isinstance(t, torch.Tensor)]
            moved = {(t.data_ptr(), t.numel()): t.numel() * t.element_size() for t in tensors}
            self.bytes[name] = self.bytes.get(name, 0) + sum(moved.values())
            self.elements[name] = self.elements.get(name, 0) + max((t.numel() for t in tensors), default=0)
            self.calls[name] = self.calls.get(name, 0) + 1
        return result


def report(model: Any, arguments: Callable[[], list[Any]], calls: int, autograd: bool = False) -> str:
    """As one JSON object; parts that cannot be had are missing or null."""
    made: dict[str, Any] = {"operators": [], "moved_bytes": None, "product_flops": None, "other_flops": None}
    with torch.no_grad():
        tally = Tally()
        with tally:
            model(*arguments())
        made["moved_bytes"] = sum(tally.bytes.values())
        counted = _product_flops(model, arguments)
        if counted is not None:
            made["product_flops"] = sum(counted.values())
            names = [n for n in tally.elements if n not in counted and n not in _NOT_COMPUTING]
            made["other_flops"] = sum(tally.elements[name] for name in names)
    made["operators"] = _timed(model, arguments, calls, tally, autograd)
    return json.dumps(made)


def _product_flops(model: Any, arguments: Callable[[], list[Any]]) -> dict[str, int] | None:
    """Of products, convolutions and attention, which torch can count exactly."""
    try:
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            model(*arguments())
    except Exception:  # a counter that does not know an operator must not end the profile
        return None
    found = counter.get_flop_counts().get("Global", {})
    return {str(getattr(packet, "__name__", packet)): int(flops) for packet, flops in found.items()}


def _timed(
    model: Any, arguments: Callable[[], list[Any]], calls: int, tally: Tally, autograd: bool
) -> list[dict[str, Any]]:
    from torch.profiler import ProfilerActivity, profile

    elsewhere = device_context.own_memory()  # where launching is one thing and computing another
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if elsewhere else [])]
    with of_calls(autograd):
        model(*arguments())
        with profile(activities=activities) as profiler:
            for _ in range(max(calls, 1)):
                model(*arguments())
            device_context.wait()
    # On such a device an operator's time is that of its kernels; what the host did meanwhile is launching.
    used = "self_device_time_total" if elsewhere else "self_cpu_time_total"
    rows: list[dict[str, Any]] = [
        {
            "name": str(event.key)[:80],
            "self_us": float(getattr(event, used)) / max(calls, 1),
            "calls": float(event.count) / max(calls, 1),
            "bytes": tally.bytes.get(str(event.key).removeprefix("aten::")),
        }
        for event in profiler.key_averages()
        if getattr(event, used) > 0
        and not is_overhead(str(event.key))
        and (not elsewhere or "cpu" in str(event.device_type).lower())
    ]
    total = sum(row["self_us"] for row in rows) or 1.0
    rows.sort(key=lambda row: -row["self_us"])
    return [{**row, "share": row["self_us"] / total} for row in rows[:_MOST]]


def is_overhead(name: str) -> bool:
    return name in _OVERHEAD or "profiler" in name.lower()


def kernels(model: Any, arguments: Callable[[], list[Any]], calls: int) -> str:
    """Kernels on the GPU with their times and launches in one call, as one JSON object."""
    made: dict[str, Any] = {"kernels": [], "error": None}
    calls = max(calls, 1)
    try:
        from torch.profiler import ProfilerActivity, profile

        with torch.inference_mode(), profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for _ in range(calls):
                model(*arguments())
            device_context.wait()
        rows = [event for event in profiler.key_averages() if "cuda" in str(event.device_type).lower()]
        rows = [event for event in rows if not is_overhead(str(event.key))]
        rows.sort(key=lambda event: -float(event.self_device_time_total))
        made["kernels"] = [
            {
                "name": str(event.key)[:_LONGEST_NAME],
                "us": float(event.self_device_time_total) / calls,
                "launches": float(event.count) / calls,
            }
            for event in rows[:_MOST_KERNELS]
        ]
    except Exception as error:  # a profile without it is better than none
        made["error"] = f"{type(error).__name__}: {error}"[:300]
    return json.dumps(made)
