"""Launchers of a shared library: arguments in, an error code out."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch

from . import _signature
from ._errors import LaunchError

# What a launcher that returns `cudaGetLastError()` most often says.
_CUDA_ERRORS = {
    1: "cudaErrorInvalidValue",
    2: "cudaErrorMemoryAllocation",
    9: "cudaErrorInvalidConfiguration: grid, block or shared memory are outside of what the device allows",
    35: "cudaErrorInsufficientDriver",
    98: "cudaErrorInvalidDeviceFunction",
    100: "cudaErrorNoDevice",
    200: "cudaErrorInvalidKernelImage",
    201: "cudaErrorDeviceUninitialized",
    209: "cudaErrorNoKernelImageForDevice: the kernel was built for another architecture",
    218: "cudaErrorInvalidPtx",
    222: "cudaErrorUnsupportedPtxVersion",
    400: "cudaErrorInvalidResourceHandle",
    700: "cudaErrorIllegalAddress",
    701: "cudaErrorLaunchOutOfResources: too many registers or threads in a block",
    702: "cudaErrorLaunchTimeout",
    710: "cudaErrorAssert",
    715: "cudaErrorIllegalInstruction",
    716: "cudaErrorMisalignedAddress",
    717: "cudaErrorInvalidAddressSpace",
    718: "cudaErrorInvalidPc",
    719: "cudaErrorLaunchFailure",
    720: "cudaErrorCooperativeLaunchTooLarge",
    801: "cudaErrorNotSupported",
    912: "cudaErrorInvalidClusterSize",
}


class _Audit:
    """What the harness sets and reads in an audit run; inert in ordinary use."""

    launches: int = 0
    failures: int = 0
    skip_kernels: bool = False


# Kept before any candidate runs: the audit replaces `ctypes.CDLL` to count plain ctypes calls, and must not count ours twice.
Dll = ctypes.CDLL


def argument(kernel: str, device: str, position: int, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.device.type != device:
            raise TypeError(f"{kernel}: argument {position} is on {value.device}, this kernel runs on {device}")
        return ctypes.c_void_p(value.data_ptr())
    if isinstance(value, int):  # bool is an int
        return ctypes.c_int64(value)
    if isinstance(value, float):
        return ctypes.c_double(value)
    if value is None:
        return ctypes.c_void_p(None)
    if isinstance(value, (ctypes._SimpleCData, ctypes.Structure)):
        return value
    raise TypeError(
        f"{kernel}: argument {position} is a {type(value).__name__}; pass tensors, ints, floats, None or ctypes values"
    )


def check(kernel: str, code: int, meaning: str) -> None:
    if code != 0:
        _Audit.failures += 1
        raise LaunchError(f"{kernel} returned {code}{meaning}")


class _Launcher:
    __slots__ = ("_device", "_function", "_name", "_pass_stream", "_signature")

    def __init__(
        self,
        function: Any,
        name: str,
        device: str,
        pass_stream: bool,
        signature: _signature.Signature | None = None,
    ) -> None:
        function.restype = ctypes.c_int
        self._signature = signature
        self._function = function
        self._name = name
        self._device = device
        self._pass_stream = pass_stream

    def __call__(self, *args: Any) -> None:
        _Audit.launches += 1
        converted = [argument(self._name, self._device, i, a) for i, a in enumerate(args)]
        if self._signature is not None:
            self._signature.check(args)
        if _Audit.skip_kernels:
            return
        if self._pass_stream:
            converted.append(ctypes.c_void_p(current_stream(self._device)))
        code = self._function(*converted)
        if code != 0:
            known = _CUDA_ERRORS.get(code) if self._device == "cuda" else None
            check(self._name, code, f", as a CUDA error {known}" if known else "")


class Library:
    """A built shared library; every exported `extern "C" int` function is an attribute."""

    def __init__(self, path: Path, device: str, pass_stream: bool, source: str = "") -> None:
        self._path = path
        self._source = source
        self._device = device
        self._pass_stream = pass_stream
        self._cdll = Dll(str(path))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        launcher = self._find(name)
        setattr(self, name, launcher)
        return launcher

    def _find(self, name: str) -> Any:
        try:
            function = getattr(self._cdll, name)
        except AttributeError:
            raise AttributeError(
                f'the library has no function {name!r}: declare it `extern "C" int {name}(...)`'
            ) from None
        signature = _signature.of(self._source, name, self._pass_stream)
        return _Launcher(function, name, self._device, self._pass_stream, signature)


def current_stream(device: str) -> int:
    if device == "cuda":
        # What `current_stream()` wraps into an object; this is on the path of every launch.
        raw: int = torch._C._cuda_getCurrentRawStream(torch.cuda.current_device())
        return raw
    module = getattr(torch, device)
    stream = module.current_stream()
    handle: int = getattr(stream, "cuda_stream", 0) or getattr(stream, "sycl_queue", 0)
    return handle
