"""Triton candidates on a machine without a GPU: the interpreter, with `cuda` mapped to the CPU.

`install()` comes before the candidate is imported and before Triton is. Every launch of a kernel is counted and, once
per signature, recorded as plain data, from which `aot` compiles the kernel for a chip that is not here. Types,
constants and alignment are found with Triton's own binder, so that they are those of a launch on the chip.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import operator
import os
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from . import closures, cuda_shim
from . import interp as triton_interp
from .aot import Chip, chip_of, encode, target_of

__all__ = ["install", "launch_count", "recorded_launches", "reset", "skip_kernels", "suspended"]

_MAX_RECORDS = 200
_MAX_ALTERNATIVES = 15
_GRID_LIMITS = (2**31 - 1, 65535, 65535)

suspended = cuda_shim.suspended


class _State:
    """All that one process knows of its candidate's launches."""

    def __init__(self, chip: Chip) -> None:
        self.chip = chip
        self.skip = False
        self.count = 0
        self.records: dict[str, dict[str, Any]] = {}
        self.binders: dict[Any, tuple[Any, Callable[..., Any]]] = {}
        self.backend: Any = None
        # The record that the launch just made has created; None when it repeated a known one.
        self.newest: dict[str, Any] | None = None
        # While set, launches are only described, into this list: the other configurations of an autotuner.
        self.alternatives: list[dict[str, Any]] | None = None


_state: _State | None = None


def _current() -> _State:
    if _state is None:
        raise RuntimeError("triton_cpu.install() was not called")
    return _state


def recorded_launches() -> list[dict[str, Any]]:
    """The distinct launches so far (at most 200), oldest first, as JSON-able data."""
    copied: list[dict[str, Any]] = json.loads(json.dumps(list(_current().records.values())))
    return copied


def launch_count() -> int:
    """All launches so far, repeated and skipped ones included."""
    return _current().count


def skip_kernels(skip: bool) -> None:
    """With True kernels are counted and recorded but not run: an output that is still right owes them nothing."""
    _current().skip = skip


def reset() -> None:
    """Forget the launches seen so far."""
    state = _current()
    state.count = 0
    state.records.clear()


class _Compiled:
    """Stands for the compiled kernel that a launch or a warm-up returns; some candidates size their grid by it."""

    n_regs = 32
    n_spills = 0
    n_max_threads = 1024

    def __init__(self, kernel: Any, options: dict[str, Any]) -> None:
        self._kernel = kernel
        self._options = options
        self.name = kernel.fn.__name__
        self.num_warps = int(options.get("num_warps") or 4)
        self.shared = 1024
        self.asm: dict[str, str] = {}
        self.metadata = types.SimpleNamespace(
            **{"num_stages": 3, "num_ctas": 1, **options, "num_warps": self.num_warps}
        )
        self.metadata.shared = self.shared
        self.metadata.name = self.name

    def _init_handles(self) -> None: ...

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*args: Any, stream: Any = None) -> Any:
            return _launch(self._kernel, *args, grid=grid, warmup=False, **self._options)

        return launch


def _binder(state: _State, kernel: Any) -> tuple[Any, Callable[..., Any]]:
    """Triton's JITFunction for the kernel, and the function by which it turns arguments into a specialisation."""
    known = state.binders.get(kernel.fn)
    if known is None:
        jit = importlib.import_module("triton.runtime.jit")
        if state.backend is None:
            state.backend = importlib.import_module("triton.compiler.compiler").make_backend(target_of(state.chip))
        settings = getattr(kernel, "kwargs", None) or getattr(kernel.rewriter, "kwargs", {})
        names = ("do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline")
        compiled = jit.JITFunction(kernel.fn, **{name: settings[name] for name in names if name in settings})
        bind = jit.create_function_from_signature(compiled.signature, compiled.params, state.backend)
        known = state.binders[kernel.fn] = (compiled, bind)
    return known


def _describe(state: _State, kernel: Any, args: Any, kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments by name, and the form of the launch: what a compile has to know of it.

    Follows JITFunction.run; what it refuses (a missing argument, an unknown keyword) is refused on a GPU too.
    """
    utils = importlib.import_module("triton._utils")
    compiled, bind = _binder(state, kernel)
    bound, specialization, extra = bind(*args, **kwargs)
    with warnings.catch_warnings():  # about Triton's own defaults, of no use in a candidate's log
        warnings.simplefilter("ignore")
        options = state.backend.parse_options(dict(kwargs))
    names = [param.name for param in compiled.params]
    for name in kwargs:
        if name not in vars(options) and name not in names:
            raise KeyError(f"Keyword argument {name} was specified but unrecognised")
    kinds = [entry[0] for entry in specialization]
    values = list(bound.values())
    constants = utils.find_paths_if(kinds, lambda _, kind: kind == "constexpr")
    marks = ["" if entry[0] == "constexpr" else entry[1] for entry in specialization]
    marked = utils.find_paths_if(marks, lambda _, mark: isinstance(mark, str))
    form = {
        "signature": {name: encode(kind) for name, kind in zip(names, kinds, strict=True)},
        "constexprs": [[list(path), encode(utils.get_iterable_path(values, path))] for path in constants],
        "attrs": [[list(path), state.backend.parse_attr(utils.get_iterable_path(marks, path))] for path in marked],
        "options": {name: encode(value) for name, value in extra.items() if value is not None},
        "num_warps": int(options.num_warps),
        "num_stages": int(options.num_stages),
    }
    return bound, form


def _record(state: _State, kernel: Any, form: dict[str, Any], grid: tuple[int, ...]) -> None:
    function = kernel.fn
    record: dict[str, Any] = {
        "kernel": function.__name__,
        "qualname": function.__qualname__,
        "module": function.__module__,
        "line": function.__code__.co_firstlineno,
        "closure": encode(function) if closures.is_inner(function) else None,
        **form,
    }
    key = json.dumps(record, sort_keys=True)
    state.newest = None
    known = state.records.get(key)
    if known is not None:
        known["count"] += 1
    elif len(state.records) < _MAX_RECORDS:
        state.newest = state.records[key] = {**record, "grid": list(grid), "count": 1, "alternatives": []}


def _grid(state: _State, grid: Any, bound: dict[str, Any]) -> tuple[int, ...]:
    # The interpreter hands a grid function its own wrapped arguments; on a GPU it gets them as they were passed.
    sizes = tuple(operator.index(size) for size in (grid(bound) if callable(grid) else grid))
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"a grid has one to three dimensions, got {sizes}")
    if state.chip.backend == "cuda":
        for size, limit, axis in zip(sizes, _GRID_LIMITS, "xyz", strict=False):
            if size > limit:
                raise RuntimeError(f"Triton Error [CUDA]: invalid argument (grid {axis} is {size}, at most {limit})")
    return sizes


def _launch(kernel: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
    """What stands in place of InterpretedFunction.run."""
    state = _current()
    jit = importlib.import_module("triton.runtime.jit")
    wrap = getattr(getattr(jit, "MockTensor", None), "wrap_dtype", None)
    if warmup and wrap is not None:
        args = tuple(wrap(arg) for arg in args)
    bound, form = _describe(state, kernel, args, kwargs)
    if state.alternatives is not None:
        state.alternatives.append(form)
        return None
    options = {name: value for name, value in kwargs.items() if name not in bound}
    if warmup:
        return _Compiled(kernel, options)
    sizes = _grid(state, grid, bound)
    state.count += 1
    _record(state, kernel, form, sizes)
    if not state.skip:
        interp = importlib.import_module("triton.runtime.interpreter")
        hooks = [kernel.pre_run_hooks] if hasattr(kernel, "pre_run_hooks") else []
        interp.GridExecutor(kernel.rewrite(), kernel.arg_names, sizes, *hooks)(*args, **kwargs)
    return _Compiled(kernel, options)


def _patch_launches() -> None:
    function: Any = importlib.import_module("triton.runtime.interpreter").InterpretedFunction
    init = function.__init__

    @functools.wraps(init)
    def patched_init(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        # Older versions set `run` on the instance and launch from __getitem__ without it: all ways lead here.
        self.run = functools.partial(_launch, self)
        self.warmup = functools.partial(_launch, self, warmup=True)

    def getitem(self: Any, grid: Any) -> Callable[..., Any]:
        return functools.partial(_launch, self, grid=grid, warmup=False)

    function.__init__ = patched_init
    function.__getitem__ = getitem


@contextlib.contextmanager
def _only_described(state: _State, into: list[dict[str, Any]]) -> Iterator[None]:
    state.alternatives = into
    try:
        yield
    finally:
        state.alternatives = None


def _autotuned(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Autotuner.run with the first configuration. Hooks run as they do around the real one's final launch."""
    state = _current()
    self.nargs = dict(zip(self.arg_names, args, strict=False))
    config = self.best_config = self.configs[0]
    full = {**self.nargs, **kwargs, **config.all_kwargs()}
    if len(self.configs) > 1:
        named = {name: value for name, value in {**self.nargs, **kwargs}.items() if name in self.arg_names}
        key = [named[name] for name in self.keys if name in named]
        key += [str(value.dtype) for value in named.values() if hasattr(value, "dtype")]
        # Tuning resets once before the first launch; later launches with the same key are not reset.
        if tuple(key) not in self.cache:
            self.cache[tuple(key)] = config
            self.pre_hook(full, reset_only=True)
    if config.pre_hook is not None:
        config.pre_hook(full)
    state.newest = None
    result = self.fn.run(*args, **kwargs, **config.all_kwargs())
    record = state.newest
    if record is not None:
        with _only_described(state, record["alternatives"]):
            for other in self.configs[1 : 1 + _MAX_ALTERNATIVES]:
                # These are only for the case that the first one asks the chip for too much, so a bad one is no loss.
                with contextlib.suppress(Exception):
                    self.fn.run(*args, **kwargs, **other.all_kwargs())
    self.nargs = None
    return result


def _autotuned_warmup(self: Any, *args: Any, **kwargs: Any) -> list[Any]:
    return [self.fn.warmup(*args, **kwargs, **self.configs[0].all_kwargs())]


def install(arch: str = "sm_90") -> None:
    """Turn this process into one that runs Triton candidates on the CPU. A second call changes nothing."""
    global _state
    if _state is not None:
        return
    os.environ["TRITON_INTERPRET"] = "1"
    chip = chip_of(arch)
    loaded = "triton" in sys.modules
    language = importlib.import_module("triton.language")
    # Functions such as tl.sum are jitted when Triton is imported: as compiled ones the interpreter cannot call them.
    if type(language.sum).__name__ != "InterpretedFunction":
        when = "before triton_cpu.install()" if loaded else "without its interpreter"
        raise RuntimeError(f"Triton was imported {when}: its library functions are not interpreted")
    triton_interp.repair()
    _patch_launches()
    tuner: Any = importlib.import_module("triton.runtime.autotuner").Autotuner
    tuner.run = _autotuned
    tuner.warmup = _autotuned_warmup
    cuda_shim.install(chip)
    _state = _State(chip)
