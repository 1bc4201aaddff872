"""The few Linux calls that Python's standard library does not have, by ctypes. No policy here."""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 0x1000, 0x4000, 1 << 18

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 1, 4, 22
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_SECCOMP_MODE_FILTER = 2
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
_SHORT_SLICE_NS = 100_000

# The numbers of these newer calls are the same on every architecture.
_SYS_MOUNT_SETATTR = 442
_SYS_LANDLOCK_CREATE_RULESET, _SYS_LANDLOCK_ADD_RULE, _SYS_LANDLOCK_RESTRICT_SELF = 444, 445, 446
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 1
_LANDLOCK_VERSION = 1
_LANDLOCK_RULE_PATH_BENEATH = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    def encoded(text: str | None) -> bytes | None:
        return None if text is None else text.encode()

    done = _libc.mount(encoded(source), encoded(target), encoded(kind), ctypes.c_ulong(flags), encoded(options))
    _checked(done, f"mount {target}")


def remount(path: str, read_only: bool) -> None:
    """Everything mounted at and beneath `path` becomes read-only, or writable again."""
    add, clear = (_MOUNT_ATTR_RDONLY, 0) if read_only else (0, _MOUNT_ATTR_RDONLY)
    attributes = (ctypes.c_uint64 * 4)(add, clear, 0, 0)
    call = _libc.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        path.encode(),
        ctypes.c_uint(_AT_RECURSIVE),
        ctypes.byref(attributes),
        ctypes.c_size_t(32),
    )
    _checked(call, "mount_setattr")


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _checked(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), f"prctl {option}")


def die_with_parent(signal: int) -> None:
    _prctl(_PR_SET_PDEATHSIG, signal)


def hide_memory() -> None:
    """Other processes of this user can no longer open /proc/<pid>/mem and the like."""
    _prctl(_PR_SET_DUMPABLE, 0)


def show_memory() -> None:
    """kforge, a process of the same user, may read results out of this one."""
    _prctl(_PR_SET_DUMPABLE, 1)


def short_slices(task: int) -> None:
    """Whoever wakes with a shorter slice is let in at once. Else a thread that spins for its next piece of work keeps the
    supervisor, or kforge itself, from its processor for milliseconds. Not all systems know this, and it is no matter."""
    _set_slice(task, _SHORT_SLICE_NS)


def usual_slices() -> None:
    _set_slice(0, 0)


def _set_slice(task: int, nanoseconds: int) -> None:
    number = _SCHED_SETATTR.get(platform.machine())
    if number is not None:
        # size, policy (the ordinary one), flags, nice, priority, slice, deadline, period
        attributes = struct.pack("IIQiIQQQ", 48, 0, 0, 0, 0, nanoseconds, 0, 0)
        _libc.syscall(number, task, attributes, 0)


def adopt_orphans() -> None:
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def no_new_privileges() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    empty = (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(ctypes.byref(header), ctypes.byref(empty)), "capset")


def loopback_up() -> None:
    """In a network namespace of one's own; the interface is there, but down."""
    import fcntl

    set_flags, up = 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh22x", b"lo", up))


class _SockFprog(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def install_seccomp(program: bytes) -> None:
    """Installs a compiled filter: a list of 8-byte instructions."""
    buffer = ctypes.create_string_buffer(program, len(program))
    prog = _SockFprog(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    zero = ctypes.c_ulong(0)
    mode = ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    _checked(_libc.prctl(_PR_SET_SECCOMP, mode, ctypes.byref(prog), zero, zero), "seccomp")


def landlock_abi() -> int:
    """The kernel's Landlock version, 0 where there is none."""
    call = _libc.syscall(
        ctypes.c_long(_SYS_LANDLOCK_CREATE_RULESET),
        None,
        ctypes.c_size_t(0),
        ctypes.c_uint32(_LANDLOCK_VERSION),
    )
    return max(0, int(call))


_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read file, read folder
_WRITE = 1 << 1 | 1 << 14  # write to a file, truncate it
_FILE_ONLY = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("fd", ctypes.c_int32))


class Landlock:
    """A rule set under construction. A path that cannot be opened is left out: what is not named is refused."""

    def __init__(self, abi: int, allow_tcp: bool = False) -> None:
        self._every = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)) - 1
        tcp = 3 if abi >= 4 and not allow_tcp else 0
        scoped = 3 if abi >= 6 else 0
        attributes = (ctypes.c_uint64 * 3)(self._every, tcp, scoped)
        size = 24 if abi >= 6 else 16 if abi >= 4 else 8
        call = _libc.syscall(
            ctypes.c_long(_SYS_LANDLOCK_CREATE_RULESET),
            ctypes.byref(attributes),
            ctypes.c_size_t(size),
            ctypes.c_uint32(0),
        )
        self._fd = _checked(int(call), "landlock_create_ruleset")

    def allow(self, path: str, write: bool) -> None:
        access = self._every if write else _READ
        if not os.path.isdir(path):
            access &= _FILE_ONLY & self._every
        self._rule(path, access)

    def _rule(self, path: str, access: int) -> None:
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            rule = _PathBeneath(access, opened)
            call = _libc.syscall(
                ctypes.c_long(_SYS_LANDLOCK_ADD_RULE),
                ctypes.c_int(self._fd),
                ctypes.c_int(_LANDLOCK_RULE_PATH_BENEATH),
                ctypes.byref(rule),
                ctypes.c_uint32(0),
            )
            _checked(int(call), f"landlock rule for {path}")
        finally:
            os.close(opened)

    def allow_writing(self, path: str) -> None:
        """Reading, and writing to files that are there; nothing can be made or removed."""
        self._rule(path, (_READ | _WRITE) & self._every)

    def enforce(self) -> None:
        call = _libc.syscall(ctypes.c_long(_SYS_LANDLOCK_RESTRICT_SELF), ctypes.c_int(self._fd), ctypes.c_uint32(0))
        _checked(int(call), "landlock_restrict_self")
        os.close(self._fd)


def is_linux() -> bool:
    return platform.system() == "Linux"
