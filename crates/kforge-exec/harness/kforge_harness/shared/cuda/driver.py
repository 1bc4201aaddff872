"""The few calls of NVIDIA's driver that torch does not offer, by ctypes. No policy here.

Function pointers are taken when this module is imported, before any candidate could replace them. Everything works on
the context that is current in the calling thread: torch's own, once torch has touched the device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ..device_protocol import NoDeviceMemory

_POSIX_FILE = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
_PINNED = 1  # CU_MEM_ALLOCATION_TYPE_PINNED
_ON_DEVICE = 1  # CU_MEM_LOCATION_TYPE_DEVICE
_READ_WRITE = 3  # CU_MEM_ACCESS_FLAGS_PROT_READWRITE
_PERSISTING_L2 = 6  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE
_MEMORY_CLOCK_KHZ, _BUS_WIDTH, _L2_BYTES, _SM_CLOCK_KHZ, _SMS = 36, 37, 38, 13, 16
_OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
_EQUAL = 1  # CU_STREAM_WAIT_VALUE_EQ
_SEEN_BY_DEVICE = 3  # CU_MEMHOSTREGISTER_PORTABLE and _DEVICEMAP


class DriverError(RuntimeError):
    """A call of the driver failed."""


class NoMemory(DriverError, NoDeviceMemory):
    """The device has not so much left."""


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _AllocationFlags(ctypes.Structure):
    _fields_ = (
        ("compression", ctypes.c_ubyte),
        ("rdma", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    )


class _Allocation(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("windows", ctypes.c_void_p),
        ("flags", _AllocationFlags),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


def _our_memory() -> _Allocation:
    return _Allocation(_PINNED, _POSIX_FILE, _Location(_ON_DEVICE, 0), None)


def load() -> Driver:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DriverError(f"NVIDIA's driver library cannot be loaded: {error}") from None
    return Driver(library)


class Driver:
    """Calls on device 0, which is the only one that a process of ours sees."""

    def __init__(self, library: Any) -> None:
        self._library = library
        checked = self._checked
        self._event_create = checked("cuEventCreate")
        self._event_record = checked("cuEventRecord")
        self._event_wait = checked("cuEventSynchronize")
        self._event_elapsed = checked("cuEventElapsedTime", "cuEventElapsedTime_v2")
        self._context_wait = checked("cuCtxSynchronize")
        self._set_limit = checked("cuCtxSetLimit")
        self._reset_l2 = checked("cuCtxResetPersistingL2Cache")
        self._stream_wait = checked("cuStreamWaitValue32_v2", "cuStreamWaitValue32")

    def _checked(self, *names: str) -> Callable[..., None]:
        function = next(f for name in names if (f := getattr(self._library, name, None)) is not None)
        function.restype = ctypes.c_int

        def call(*args: Any) -> None:
            code = function(*args)
            if code != 0:
                kind = NoMemory if code == _OUT_OF_MEMORY else DriverError
                raise kind(f"{names[0]}: {self.error_name(code)}")

        return call

    def error_name(self, code: int) -> str:
        name = ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(name))
        return (name.value or b"error %d" % code).decode()

    # -- time -----------------------------------------------------------------------------------------------------

    def event(self) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._event_create(ctypes.byref(made), 0)
        return made

    def record(self, event: ctypes.c_void_p, stream: int) -> None:
        self._event_record(event, ctypes.c_void_p(stream))

    def wait(self, event: ctypes.c_void_p) -> None:
        self._event_wait(event)

    def elapsed_ns(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> int:
        milliseconds = ctypes.c_float()
        self._event_elapsed(ctypes.byref(milliseconds), start, end)
        return round(milliseconds.value * 1e6)

    def wait_for_device(self) -> None:
        """Until everything that this process has launched is done, on every stream."""
        self._context_wait()

    def wait_for_word(self, address: int, value: int, stream: int) -> None:
        """What is launched on `stream` from now on waits until the word at `address` is `value`."""
        self._stream_wait(
            ctypes.c_void_p(stream), ctypes.c_ulonglong(address), ctypes.c_uint(value), ctypes.c_uint(_EQUAL)
        )

    def forget_persisting_l2(self) -> None:
        """Nothing stays in the level-2 cache by privilege."""
        self._set_limit(_PERSISTING_L2, ctypes.c_size_t(0))
        self._reset_l2()

    # -- facts ----------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, int]:
        names = {
            "memory_clock_khz": _MEMORY_CLOCK_KHZ,
            "bus_width_bits": _BUS_WIDTH,
            "l2_bytes": _L2_BYTES,
            "sm_clock_khz": _SM_CLOCK_KHZ,
            "sms": _SMS,
        }
        return {name: self._attribute(code) for name, code in names.items()}

    def _attribute(self, code: int) -> int:
        value = ctypes.c_int()
        self._checked("cuDeviceGetAttribute")(ctypes.byref(value), code, 0)
        return value.value

    # -- memory made for nothing else -----------------------------------------------------------------------------

    def size_of(self, nbytes: int) -> int:
        """What an allocation of `nbytes` really takes: whole units."""
        unit = ctypes.c_size_t()
        properties = _our_memory()
        self._checked("cuMemGetAllocationGranularity")(ctypes.byref(unit), ctypes.byref(properties), 0)
        return max(1, -(-nbytes // unit.value)) * unit.value

    def allocate(self, nbytes: int) -> tuple[int, int]:
        """Physical memory of at least `nbytes` as a file descriptor, and its true size."""
        size, properties = self.size_of(nbytes), _our_memory()
        handle = ctypes.c_ulonglong()
        self._checked("cuMemCreate")(
            ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(properties), ctypes.c_ulonglong(0)
        )
        file = ctypes.c_int(-1)
        try:
            self._checked("cuMemExportToShareableHandle")(
                ctypes.byref(file), handle, _POSIX_FILE, ctypes.c_ulonglong(0)
            )
        finally:
            self._checked("cuMemRelease")(handle)
        return file.value, size

    def map(self, file: int, size: int) -> int:
        """The address of memory that another process, or this one, allocated."""
        handle = ctypes.c_ulonglong()
        self._checked("cuMemImportFromShareableHandle")(ctypes.byref(handle), ctypes.c_void_p(file), _POSIX_FILE)
        address = ctypes.c_ulonglong()
        zero = ctypes.c_ulonglong(0)
        try:
            self._checked("cuMemAddressReserve")(
                ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_size_t(0), zero, zero
            )
            self._checked("cuMemMap")(address, ctypes.c_size_t(size), ctypes.c_size_t(0), handle, zero)
        finally:
            self._checked("cuMemRelease")(handle)  # the mapping keeps it
        access = _Access(_Location(_ON_DEVICE, 0), _READ_WRITE)
        self._checked("cuMemSetAccess")(address, ctypes.c_size_t(size), ctypes.byref(access), ctypes.c_size_t(1))
        return address.value

    def unmap(self, address: int, size: int) -> None:
        """The memory goes back to the device once no other process has it mapped."""
        self._checked("cuMemUnmap")(ctypes.c_ulonglong(address), ctypes.c_size_t(size))
        self._checked("cuMemAddressFree")(ctypes.c_ulonglong(address), ctypes.c_size_t(size))

    def plain_memory(self, nbytes: int) -> int:
        """The address of memory that no other process can see."""
        address = ctypes.c_ulonglong()
        self._checked("cuMemAlloc_v2")(ctypes.byref(address), ctypes.c_size_t(nbytes))
        return address.value

    def pin(self, address: int, nbytes: int) -> int:
        """Lets the device use memory of the host, and says where it sees it."""
        self._checked("cuMemHostRegister_v2")(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), _SEEN_BY_DEVICE)
        seen = ctypes.c_ulonglong()
        self._checked("cuMemHostGetDevicePointer_v2")(ctypes.byref(seen), ctypes.c_void_p(address), ctypes.c_uint(0))
        return seen.value
