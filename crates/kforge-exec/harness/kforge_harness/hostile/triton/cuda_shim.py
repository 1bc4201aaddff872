"""`cuda` mapped to the CPU, for candidates written in ordinary GPU style on a machine without a GPU.

A torch function mode sends every operation that names a `cuda` device to the CPU and lets CPU tensors say that they
live on `cuda:0`; the functions of `torch.cuda` that need a driver answer for the chip named by the architecture.
The mode belongs to the thread that installed it. `suspended()` shows the truth again, for the harness's own checks.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _device

from ..failure import Uninterpretable
from .aot import Chip, target_of

_CPU = torch.device("cpu")
_GPU = torch.device("cuda", 0)
_PACKAGE = __name__.partition(".")[0] + "."
_NAME = re.compile(r"cuda(:\d+)?")


def _on_cpu(device: Any) -> Any:
    if isinstance(device, torch.device):
        return _CPU if device.type == "cuda" else device
    if isinstance(device, str) and _NAME.fullmatch(device):
        return "cpu"
    return device


def _own_device(tensor: Any) -> Any:
    true = torch.Tensor.device.__get__(tensor)
    return _GPU if true.type == "cpu" else true


def _asked_by_harness(frame: types.FrameType) -> bool:
    """The harness looks at outputs while the mode is on, and has to see where they really are."""
    return str(frame.f_globals.get("__name__", "")).startswith(_PACKAGE)


class _CudaOnCpu(TorchFunctionMode):
    """Rewrites device arguments; answers the questions a tensor is asked about its device."""

    def __init__(self) -> None:
        super().__init__()
        self.active = True
        tensor: Any = torch.Tensor
        self.answers: dict[Any, Callable[..., Any]] = {
            tensor.is_cuda.__get__: lambda *_: True,
            tensor.is_cpu.__get__: lambda *_: False,
            tensor.device.__get__: lambda x, *_: _own_device(x),
            tensor.get_device: lambda *_: 0,
            torch.get_device: lambda *_: 0,
            tensor.cuda: lambda x, *_, **__: x,
            # On a GPU this is a copy: what is written to one later must not show in the other.
            tensor.cpu: lambda x, *_, **__: x.clone(),
            tensor.pin_memory: lambda x, *_, **__: x,
            tensor.is_pinned: lambda *_, **__: False,
        }
        self.questions = {q for q in list(self.answers)[:5]}
        self.to = tensor.to

    def __torch_function__(
        self, func: Any, kinds: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self.active:
            return func(*args, **kwargs)
        answer = self.answers.get(func)
        if answer is not None:
            if func in self.questions and _asked_by_harness(sys._getframe(1)):
                return func(*args, **kwargs)
            return answer(*args, **kwargs)
        if func is torch.get_device_module:  # a question about `cuda` itself
            return func(*args, **kwargs)
        # The one function that takes a device without its name.
        if func is self.to and len(args) > 1:
            args = (args[0], _CPU if type(args[1]) is int else _on_cpu(args[1]), *args[2:])
        if "device" in kwargs:
            device = kwargs["device"]
            kwargs = {**kwargs, "device": _CPU if type(device) is int else _on_cpu(device)}
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        return func(*args, **kwargs)


class Stream:
    """A stream on which everything is done at once, as it is on the CPU."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0
    device = _GPU
    priority = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...
    def wait_stream(self, stream: Any) -> None: ...
    def wait_event(self, event: Any) -> None: ...

    def record_event(self, event: Any = None) -> Any:
        return Event() if event is None else event

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return (0, 0)


class Event:
    """An event that has always happened; times between two are 1 ms, since nothing is measured here."""

    cuda_event = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def record(self, stream: Any = None) -> None: ...
    def wait(self, stream: Any = None) -> None: ...
    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Any) -> float:
        return 1.0


class _Guard(contextlib.ContextDecorator):
    """torch.cuda.device, device_of and stream: contexts that change nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        return None


def _generator_type() -> Any:
    """torch.Generator for which `cuda` is the CPU; a class, because annotations and isinstance use it as one."""
    real: Any = torch._C.Generator

    def instancecheck(cls: Any, instance: Any) -> bool:
        return type(instance) is real or type.__instancecheck__(cls, instance)

    def new(cls: Any, device: Any = "cpu") -> Any:
        return real(device=_on_cpu(device))

    meta = type("_GeneratorMeta", (type(real),), {"__instancecheck__": instancecheck})
    return meta("Generator", (real,), {"__new__": new})


class _NoGraph:
    """CUDA graphs replay recorded launches; the interpreter has nothing to record."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise Uninterpretable(type(self).__name__)


class CUDAGraph(_NoGraph):
    """torch.cuda.CUDAGraph"""


class graph(_NoGraph):
    """torch.cuda.graph"""


class make_graphed_callables(_NoGraph):
    """torch.cuda.make_graphed_callables"""


def _constant(value: Any) -> Callable[..., Any]:
    def answer(*args: Any, **kwargs: Any) -> Any:
        return value

    return answer


def properties(chip: Chip) -> types.SimpleNamespace:
    """What torch.cuda.get_device_properties says of the chip."""
    major, minor = chip.capability
    return types.SimpleNamespace(
        name=chip.name,
        major=major,
        minor=minor,
        total_memory=chip.memory,
        multi_processor_count=chip.processors,
        warp_size=chip.warp_size,
        max_threads_per_block=1024,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=min(49152, chip.shared),
        shared_memory_per_block_optin=chip.shared,
        shared_memory_per_multiprocessor=chip.shared + 1024,
        L2_cache_size=chip.l2,
        is_integrated=False,
        is_multi_gpu_board=False,
        gcnArchName=chip.arch,
    )


# Functions of torch.cuda that count, and functions that only do something.
_ZERO = "memory_allocated max_memory_allocated memory_reserved max_memory_reserved"
_NOTHING = """init _lazy_init set_device synchronize empty_cache ipc_collect reset_peak_memory_stats seed seed_all
    reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats manual_seed manual_seed_all
    set_rng_state set_rng_state_all set_stream set_per_process_memory_fraction"""


def _patch_cuda(chip: Chip) -> None:
    cuda: Any = torch.cuda
    answers: dict[str, Any] = {
        "is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0,
        "get_device_name": chip.name, "get_device_capability": chip.capability,
        "get_device_properties": properties(chip), "get_arch_list": [chip.arch], "is_bf16_supported": True,
        "is_tf32_supported": True, "can_device_access_peer": False, "is_current_stream_capturing": False,
        "mem_get_info": (chip.memory, chip.memory), "memory_stats": {}, "utilization": 0,
        "get_rng_state": torch.empty(0, dtype=torch.uint8), "get_rng_state_all": [], "initial_seed": 0,
    }  # fmt: skip
    answers |= dict.fromkeys(_ZERO.split(), 0)
    answers |= dict.fromkeys(_NOTHING.split())
    for name, value in answers.items():
        setattr(cuda, name, _constant(value))
    stream = Stream()
    for name in ("current_stream", "default_stream"):
        setattr(cuda, name, _constant(stream))
    for name, kind in {
        "Stream": Stream, "ExternalStream": Stream, "Event": Event, "device": _Guard, "device_of": _Guard,
        "stream": _Guard, "StreamContext": _Guard, "_DeviceGuard": _Guard, "CUDAGraph": CUDAGraph, "graph": graph,
        "make_graphed_callables": make_graphed_callables,
    }.items():  # fmt: skip
        setattr(cuda, name, kind)
    nvtx: Any = getattr(cuda, "nvtx", None)
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        if hasattr(nvtx, name):
            setattr(nvtx, name, _constant(0))
    if hasattr(nvtx, "range"):
        nvtx.range = _Guard
    if hasattr(torch._C, "_cuda_getCurrentRawStream"):
        torch._C._cuda_getCurrentRawStream = _constant(0)
    accelerator: Any = getattr(torch, "accelerator", None)
    for name, value in {
        "is_available": True, "device_count": 1, "current_accelerator": torch.device("cuda"), "synchronize": None,
        "current_device_index": 0, "current_device_idx": 0, "current_stream": stream, "set_device_index": None,
        "set_device_idx": None, "empty_cache": None,
    }.items():  # fmt: skip
        if hasattr(accelerator, name):
            setattr(accelerator, name, _constant(value))


def _patch_defaults(mode: _CudaOnCpu) -> None:
    """Places where a device is named without passing through the mode."""
    # A default device is put beneath all other modes, where ours no longer sees what it adds.
    context: Any = _device.DeviceContext
    init = context.__init__

    @functools.wraps(init)
    def context_init(self: Any, device: Any) -> None:
        init(self, _on_cpu(device))

    context.__init__ = context_init
    # Its argument must be a stream of torch's own before any mode is asked.
    torch.Tensor.record_stream = _constant(None)  # type: ignore[method-assign]
    torch.Generator = _generator_type()  # type: ignore[misc]

    # The body of a custom operator runs beneath the mode too, and one declared for `cuda` only would not be found.
    library: Any = torch.library
    for name in ("custom_op", "triton_op"):
        original = getattr(library, name, None)
        if original is not None:
            setattr(library, name, _custom_op(original, mode))
    inner: Any = getattr(torch._library, "triton", None)
    for module in (library, inner):
        for name in ("wrap_triton", "capture_triton"):
            if hasattr(module, name):
                setattr(module, name, lambda kernel: kernel)


def _custom_op(original: Callable[..., Any], mode: _CudaOnCpu) -> Callable[..., Any]:
    @functools.wraps(original)
    def declare(name: str, fn: Any = None, /, **kwargs: Any) -> Any:
        kwargs.pop("device_types", None)

        def wrap(body: Callable[..., Any]) -> Any:
            @functools.wraps(body)
            def inside(*args: Any, **inner: Any) -> Any:
                with mode:
                    return body(*args, **inner)

            return original(name, inside, **kwargs)

        return wrap if fn is None else wrap(fn)

    return declare


def _benchmark(fn: Any, *args: Any, quantiles: Any = None, return_mode: str = "mean", **kwargs: Any) -> Any:
    """Stands in for triton.testing.do_bench: nothing can be measured here, so nothing is run."""
    if quantiles is not None:
        return [1.0] * len(quantiles) if len(quantiles) > 1 else 1.0
    return [1.0] if return_mode == "all" else 1.0


def _driver(chip: Chip) -> Any:
    properties = {
        "max_shared_mem": chip.shared, "max_num_regs": 65536, "multiprocessor_count": chip.processors,
        "warpSize": chip.warp_size, "sm_clock_rate": 1_980_000, "mem_clock_rate": 2_619_000, "mem_bus_width": 5120,
    }  # fmt: skip
    return types.SimpleNamespace(
        utils=types.SimpleNamespace(get_device_properties=lambda *_: dict(properties)),
        get_current_device=lambda: 0,
        set_current_device=lambda *_: None,
        get_current_stream=lambda *_: 0,
        get_device_capability=lambda *_: chip.capability,
        get_current_target=lambda: target_of(chip),
        get_active_torch_device=lambda: _GPU,
        get_device_interface=lambda: torch.cuda,
        get_benchmarker=lambda: _benchmark,
        get_empty_cache_for_benchmark=lambda: torch.empty(1, dtype=torch.int),
        clear_cache=lambda cache: cache.zero_(),
        is_active=lambda: True,
    )


def _patch_triton(chip: Chip) -> None:
    """What Triton itself is asked about the device, and the clock of its autotuner."""
    config: Any = importlib.import_module("triton.runtime").driver
    driver = _driver(chip)
    config.set_active(driver)
    for name in ("_default", "default"):
        if name in vars(config):
            setattr(config, name, driver)
    testing: Any = importlib.import_module("triton.testing")
    for name in ("do_bench", "do_bench_cudagraph"):
        setattr(testing, name, _benchmark)


_mode: _CudaOnCpu | None = None


def install(chip: Chip) -> None:
    """Map `cuda` to the CPU in this thread, for the rest of the process. Imports Triton.

    Both the process that interprets and the one that compiles have this, so that a candidate which asks about the device
    while it is imported gets the same answers in both.
    """
    global _mode
    if _mode is not None:
        return
    _patch_cuda(chip)
    _patch_triton(chip)
    _mode = _CudaOnCpu()
    _patch_defaults(_mode)
    _mode.__enter__()  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def suspended() -> Iterator[None]:
    """Within this, tensors tell their true device; for the harness's own looks at a candidate's outputs."""
    if _mode is None:
        yield
        return
    before, _mode.active = _mode.active, False
    try:
        yield
    finally:
        _mode.active = before
