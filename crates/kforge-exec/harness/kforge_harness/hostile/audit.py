"""Untimed looks at who computes: framework operators or the candidate's own kernels.

`skip_kernels` turns the candidate's own kernels into no-ops for a whole process, with uninitialised memory filled
with NaN: if the output is still right, the kernels were a decoy.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from typing import Any

import torch

import kforge_rt

from ..shared.modes import Watch, is_own, launches_triton, name_of
from .cute import launches as cute_launches

_clock = time.perf_counter_ns

# Operators that allocate, view or describe: they compute nothing.
_NOT_COMPUTING = frozenset(
    """empty empty_like empty_strided new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like full full_like
    view _unsafe_view reshape permute transpose t expand as_strided slice select squeeze unsqueeze detach alias narrow
    split split_with_sizes chunk unbind flatten unflatten _reshape_alias lift_fresh scalar_tensor resize_ set_ zero_
    fill_ clone copy_ _to_copy contiguous is_same_size size stride sym_size _local_scalar_dense item numel arange
    pin_memory record_stream diagonal movedim swapaxes unfold view_as_real view_as_complex""".split()
)


class OperatorClock(Watch):
    """Sums the time of framework operators that compute."""

    def __init__(self, wait: Callable[[], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._wait = wait  # until a device has done what it was told
        self.nanoseconds = 0
        self._names: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_own(func):
            # An operator of the candidate's own, `triton_op` for one: what counts is which operators it calls.
            return self.inside(func, args, kwargs)
        name = name_of(func)
        if name in _NOT_COMPUTING or launches_triton(func):
            return func(*args, **kwargs)
        self._wait()
        start = _clock()
        result = func(*args, **kwargs)
        self._wait()
        self.nanoseconds += _clock() - start
        self._names[name] = self._names.get(name, 0) + 1
        return result

    def names(self) -> list[str]:
        return sorted(self._names)


class Audit:
    """Counts the candidate's own launches, whichever way they are made."""

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.foreign = 0
        self.triton: Any = None

    def launches(self) -> int:
        counted: int = kforge_rt._Audit.launches + self.foreign
        return counted + (self.triton.launch_count() if self.triton else 0)


def failed_launches() -> int:
    """Launchers that returned an error so far; a forward that goes on regardless hides a fallback."""
    counted: int = kforge_rt._Audit.failures
    return counted


def install(skip_kernels: bool, interpret: bool, arch: str, source: str, pose: bool = False) -> Audit:
    """Before the candidate is imported. Counting costs nothing where kernels go through `kforge_rt`.

    With `pose` this process says that it has the chip of `arch`, as an interpreting one does: it compiles for that chip.
    """
    audit = Audit(skip_kernels)
    kforge_rt._Audit.skip_kernels = skip_kernels
    cute_launches.watch(audit)
    if interpret:
        from .triton import cpu as triton_cpu

        triton_cpu.install(arch)
        triton_cpu.skip_kernels(skip_kernels)
        audit.triton = triton_cpu
    elif pose:
        from .triton import aot as triton_aot
        from .triton import cuda_shim as triton_cuda_shim

        triton_cuda_shim.install(triton_aot.chip_of(arch))
    if skip_kernels:
        # The public function would import torch._inductor for its own settings, a second's worth.
        torch._C._set_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
        _watch_ctypes(audit)
        _watch_extensions(audit)
        if "triton" in source and not interpret:
            _watch_triton(audit)
    return audit


def _watch_triton(audit: Audit) -> None:
    """Launches of Triton's kernels become no-ops, those of an autotuner's trials too."""
    from triton.runtime.jit import JITFunction

    def run(_self: Any, *_args: Any, **_kwargs: Any) -> None:
        audit.foreign += 1

    JITFunction.run = run


def _watch_ctypes(audit: Audit) -> None:
    """Functions of libraries that lie in the scratch folder become no-ops; libc and the like stay."""
    scratch = os.getcwd()
    real = ctypes.CDLL

    class Watched(real):  # type: ignore[misc, valid-type]
        def __init__(self, name: Any = None, *args: Any, **kwargs: Any) -> None:
            super().__init__(name, *args, **kwargs)
            if name is not None and os.path.realpath(str(name)).startswith(scratch):
                self._FuncPtr: Any = _skipped(self._FuncPtr, audit)

    ctypes.CDLL = Watched  # type: ignore[misc]
    ctypes.cdll._dlltype = Watched  # type: ignore[attr-defined]


def _skipped(function_type: Any, audit: Audit) -> Any:
    class Skipped(function_type):  # type: ignore[misc]
        _flags_ = function_type._flags_
        _restype_ = function_type._restype_

        def __call__(self, *_args: Any, **_kwargs: Any) -> int:
            audit.foreign += 1
            return 0

    return Skipped


def _watch_extensions(audit: Audit) -> None:
    import torch.utils.cpp_extension as extensions

    def watched(real: Any) -> Any:
        def load(*args: Any, **kwargs: Any) -> Any:
            module = real(*args, **kwargs)
            return _Poisoned(module, audit)

        return load

    extensions.load_inline = watched(extensions.load_inline)
    extensions.load = watched(extensions.load)


class _Poisoned:
    """An extension module whose functions return NaN where they returned values."""

    def __init__(self, module: Any, audit: Audit) -> None:
        self._module = module
        self._audit = audit

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if not callable(value):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            self._audit.foreign += 1
            return _poison(value(*_cloned(args), **_cloned(kwargs)))

        return call


def _cloned(value: Any) -> Any:
    """What the function writes to must not be what the candidate sees."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _cloned(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return (list if isinstance(value, list) else tuple)(_cloned(entry) for entry in value)
    return value


def _poison(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.full_like(value, float("nan")) if value.is_floating_point() else torch.zeros_like(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_poison(entry) for entry in value)
    return value
