"""The walls around builder and cell.

Two steps. The process that becomes a candidate's supervisor takes the first, once: `unshare_namespaces` and `furnish`
make namespaces with a read-only view of the machine and a private scratch, and `survey` finds out which rules can be
enforced here. `confine` is done by each child before it loads hostile code: limits, file rules, system-call rules. What
could not be enforced is collected by name: the level in a result is what was really done, never what was asked for.
"""

from __future__ import annotations

import base64
import importlib
import os
import resource
import signal
import sys
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from ..shared import linux

# What programs and compilers read on any Linux machine. Homes are not here, nor most of /etc.
_READABLE = (
    "/usr", "/lib", "/lib64", "/lib32", "/libx32", "/bin", "/sbin", "/opt", "/proc", "/sys/devices/system",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime",
    "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/ssl/openssl.cnf", "/nix/store",
)  # fmt: skip
_WRITABLE = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


@dataclass(frozen=True)
class Policy:
    """What kforge demands for one candidate; made from the JSON that it sends."""

    scratch: str
    scratch_bytes: int
    memory_bytes: int
    process_limit: int
    readable: list[str]
    writable: list[str]
    seccomp: list[bytes]
    tool_seccomp: list[bytes]
    namespaces: bool
    device: str  # whose driver's files may be used

    @staticmethod
    def parse(message: dict[str, Any]) -> Policy:
        return Policy(
            scratch=message["scratch"],
            scratch_bytes=message["scratch_bytes"],
            memory_bytes=message["memory_bytes"],
            process_limit=message["process_limit"],
            readable=message["readable"],
            writable=message["writable"],
            seccomp=[base64.b64decode(program) for program in message["seccomp"]],
            tool_seccomp=[base64.b64decode(program) for program in message["tool_seccomp"]],
            namespaces=message["namespaces"],
            device=message["device"],
        )


@dataclass
class Enforced:
    """What really holds."""

    namespaces: bool = False
    fresh_proc: bool = False
    files: bool = False
    syscalls: bool = False
    missing: list[str] = field(default_factory=list)

    def level(self) -> str:
        if self.namespaces and self.fresh_proc and self.files and self.syscalls:
            return "full"
        return "partial" if self.files and self.syscalls else "none"


def unshare_namespaces(enforced: Enforced) -> None:
    """New user, mount, pid, network and ipc namespaces for this process's children."""
    if not linux.is_linux():
        enforced.missing.append("namespaces: only Linux has them")
        return
    uid, gid = os.getuid(), os.getgid()
    flags = linux.CLONE_NEWUSER | linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC
    try:
        linux.unshare(flags)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"1000 {uid} 1")
        _write("/proc/self/gid_map", f"1000 {gid} 1")
        enforced.namespaces = True
    except OSError as error:
        enforced.missing.append(f"namespaces: {error.strerror or error}")


def furnish(policy: Policy, enforced: Enforced) -> None:
    """In the new namespaces, as their first process: a read-only machine, a fresh /proc, a private scratch."""
    if not enforced.namespaces:
        return
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    # A writable folder must be a mount of its own to stay writable below a read-only root.
    kept = [path for path in policy.writable if os.path.isdir(path)]
    for path in kept:
        linux.mount(path, path, None, linux.MS_BIND)
    try:
        linux.remount("/", read_only=True)
        for path in kept:
            linux.remount(path, read_only=False)
    except OSError as error:
        enforced.missing.append(f"read-only view: {error.strerror or error}")
    options = f"size={policy.scratch_bytes},nr_inodes=100000,mode=0700"
    linux.mount("tmpfs", policy.scratch, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)
    if os.path.isdir("/dev/shm"):
        linux.mount("tmpfs", "/dev/shm", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)
    try:
        linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
        enforced.fresh_proc = True
    except OSError as error:
        enforced.missing.append(f"fresh /proc: {error.strerror or error}")


def confine(policy: Policy, enforced: Enforced, tools: bool = False) -> None:
    """In the child that will load hostile code, as the last thing before it does.

    With `tools` it may use network sockets, because profilers talk to what they started over the loopback interface.
    That is no way out of a network namespace of its own, and without one it is not given.
    """
    tools = tools and enforced.namespaces
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, policy.scratch_bytes)
    if _rules_of(policy.device).LIMITS_ADDRESSES:  # elsewhere the supervisor's count of pages has to do
        _limit(resource.RLIMIT_DATA, policy.memory_bytes)
    _limit(resource.RLIMIT_NOFILE, 1024)
    if os.getuid() != 0:
        _limit(resource.RLIMIT_NPROC, max(policy.process_limit * 8, 512))
    if not linux.is_linux():
        return
    linux.die_with_parent(signal.SIGKILL)
    linux.no_new_privileges()
    if enforced.namespaces:
        linux.drop_capabilities()
    abi = linux.landlock_abi()
    if abi >= 1:
        rules = linux.Landlock(abi, allow_tcp=tools)
        for path in (*_READABLE, *policy.readable, *python_folders()):
            rules.allow(path, write=False)
        private = ("/dev/shm",) if enforced.namespaces else ()  # elsewhere it is the machine's own
        for path in (*_WRITABLE, *private, *policy.writable, policy.scratch):
            rules.allow(path, write=True)
        _rules_of(policy.device).allow(rules)
        rules.enforce()
    for program in policy.tool_seccomp if tools else policy.seccomp:
        linux.install_seccomp(program)


class _Rules(Protocol):
    """The module `sandbox` of a device's package, which does without torch."""

    LIMITS_ADDRESSES: bool  # whether what a process maps says what it holds

    def allow(self, rules: linux.Landlock) -> None:
        """What the device's driver opens."""


def _rules_of(place: str) -> _Rules:
    """`place` is what kforge calls the device; the package comes first in it."""
    return cast(_Rules, importlib.import_module(f".{place.partition(':')[0]}.sandbox", __package__))


def survey(policy: Policy, enforced: Enforced) -> None:
    """Tries `confine` in a throw-away child, so that the level is known before hostile code is there."""
    if not linux.is_linux():
        enforced.missing.append("file and system-call rules: only Linux has them")
        return
    if linux.landlock_abi() < 1:
        enforced.missing.append("file rules: this kernel has no Landlock")
    if not policy.seccomp:
        enforced.missing.append("system-call rules: no filter for this architecture")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            confine(policy, enforced)
            code = _probe(policy)
        finally:
            os._exit(code)
    _pid, status = os.waitpid(pid, 0)
    bits = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1
    enforced.files = linux.landlock_abi() >= 1 and bits & ~4 == 0
    enforced.syscalls = bool(policy.seccomp) and bits & ~2 == 0
    if bits & 1:
        enforced.missing.append("file and system-call rules: they could not be installed")
    if bits & 2:
        enforced.missing.append("file rules: a forbidden write went through")
    if bits & 4:
        enforced.missing.append("system-call rules: a forbidden call went through")


def _probe(policy: Policy) -> int:
    """Does what must be refused: best-effort rules have silently enforced nothing before."""
    failed = 0
    outside = os.path.dirname(policy.scratch.rstrip("/"))
    try:
        os.listdir(outside)
        failed |= 2
    except OSError:
        pass
    import socket

    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()
        failed |= 4
    except OSError:
        pass
    return failed


def python_folders() -> list[str]:
    """Where this interpreter and its packages lie; read-only for cells."""
    found = {sys.prefix, sys.base_prefix, sys.exec_prefix}
    found.update(path for path in sys.path if os.path.isabs(path) and os.path.exists(path))
    found.update(os.path.realpath(path) for path in list(found))
    return sorted(found)


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (bound, bound))


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
