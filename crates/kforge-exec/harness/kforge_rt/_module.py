"""Device code alone: loaded and launched through NVIDIA's driver."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import torch

from ._errors import BuildError, LaunchError
from ._launch import Dll, Library, _Audit, argument, check, current_stream


class Module(Library):
    """Device code alone, from NVRTC or PTX; every `extern "C" __global__` kernel is an attribute.

    `module.kernel[grid, block](x, y, n)`, or `[grid, block, shared]` with bytes of dynamic shared memory; grid and block are
    ints or tuples of up to three. Parameters must have the sizes of what is passed: pointers, `long long` for an int,
    `double` for a float; for others pass a ctypes value, such as `ctypes.c_int(n)` for an `int n`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._device = "cuda"
        self._handles: dict[int, ctypes.c_void_p] = {}

    def _find(self, name: str) -> _Kernel:
        return _Kernel(self, name)

    def _handle(self, device: int) -> ctypes.c_void_p:
        """Loaded at the first launch on a device: a build needs none."""
        found = self._handles.get(device)
        if found is None:
            torch.cuda.synchronize()  # makes torch's context this thread's current one
            found, log = ctypes.c_void_p(), ctypes.create_string_buffer(8192)
            options = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER and its size
            values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
            image = self._path.read_bytes() + b"\0"
            code = _driver().cuModuleLoadDataEx(ctypes.byref(found), image, 2, options, values)
            if code != 0:
                said = log.value.decode("utf-8", "replace").strip()
                raise BuildError(f"the driver does not load the kernel: {_driver_error(code)}", said)
            self._handles[device] = found
        return found


class _Kernel:
    """One kernel of a `Module`; `kernel[grid, block, shared]` is what can be called."""

    def __init__(self, module: Module, name: str) -> None:
        self._module = module
        self._name = name
        self._functions: dict[int, tuple[ctypes.c_void_p, list[int] | None]] = {}
        self._shared = 48 * 1024  # what a kernel may have without asking

    def __getitem__(self, launch: tuple[Any, ...]) -> Any:
        if not isinstance(launch, tuple) or not 2 <= len(launch) <= 3:
            raise TypeError(
                f"{self._name}: write {self._name}[grid, block](...) or {self._name}[grid, block, shared](...)"
            )
        grid, block = _three(self._name, launch[0]), _three(self._name, launch[1])
        shared = int(launch[2]) if len(launch) == 3 else 0
        return functools.partial(self._launch, grid, block, shared)

    def __call__(self, *_args: Any) -> None:
        raise TypeError(f"{self._name} is a kernel, not a launcher: write {self._name}[grid, block](...)")

    def _launch(self, grid: tuple[int, ...], block: tuple[int, ...], shared: int, *args: Any) -> None:
        _Audit.launches += 1
        converted = [argument(self._name, "cuda", i, a) for i, a in enumerate(args)]
        if _Audit.skip_kernels:
            return
        device = torch.cuda.current_device()
        if device not in self._functions:
            self._functions[device] = self._resolve(device)
        function, sizes = self._functions[device]
        if sizes is not None:
            self._check_sizes(converted, sizes)
        if shared > self._shared:  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._checked(_driver().cuFuncSetAttribute(function, 8, shared))
            self._shared = shared
        addresses = [ctypes.addressof(value) for value in converted]
        parameters = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        stream = ctypes.c_void_p(current_stream("cuda"))
        self._checked(_driver().cuLaunchKernel(function, *grid, *block, shared, stream, parameters, None))

    def _resolve(self, device: int) -> tuple[ctypes.c_void_p, list[int] | None]:
        function = ctypes.c_void_p()
        handle = self._module._handle(device)
        if _driver().cuModuleGetFunction(ctypes.byref(function), handle, self._name.encode()) != 0:
            raise AttributeError(
                f'there is no kernel {self._name!r}: declare it `extern "C" __global__ void {self._name}(...)`'
            )
        return function, _parameter_sizes(function)

    def _check_sizes(self, values: list[Any], sizes: list[int]) -> None:
        """The driver would read as many bytes as the kernel declares, whatever they are."""
        given = [ctypes.sizeof(value) for value in values]
        if len(given) != len(sizes):
            raise TypeError(f"{self._name} takes {len(sizes)} arguments, {len(given)} were given")
        for position, (have, want) in enumerate(zip(given, sizes, strict=True)):
            if have != want:
                raise TypeError(
                    f"{self._name}: argument {position} has {have} bytes, the kernel's parameter {want}: declare `long long` "
                    "for an int and `double` for a float, or pass a ctypes value such as ctypes.c_int(n), ctypes.c_float(x)"
                )

    def _checked(self, code: int) -> None:
        check(self._name, code, f" ({_driver_error(code)})" if code else "")


def _three(kernel: str, size: Any) -> tuple[int, ...]:
    sizes = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if not 1 <= len(sizes) <= 3 or not all(isinstance(n, int) and n > 0 for n in sizes):
        raise TypeError(f"{kernel}: a grid or block is 1 to 3 positive ints, not {size!r}")
    return (*sizes, 1, 1)[:3]


@functools.cache
def _driver() -> Any:
    try:
        return Dll("libcuda.so.1")
    except OSError as error:
        raise LaunchError(f"NVIDIA's driver is not here ({error}); kernels can be built, not launched") from None


def _driver_error(code: int) -> str:
    name = ctypes.c_char_p()
    _driver().cuGetErrorName(code, ctypes.byref(name))
    return (name.value or b"unknown CUDA error").decode()


def _parameter_sizes(function: ctypes.c_void_p) -> list[int] | None:
    """Of a kernel, where the driver can tell (12.4 and later)."""
    try:
        info = _driver().cuFuncGetParamInfo
    except AttributeError:
        return None
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    sizes: list[int] = []
    while info(function, ctypes.c_size_t(len(sizes)), ctypes.byref(offset), ctypes.byref(size)) == 0:
        sizes.append(size.value)
    return sizes
