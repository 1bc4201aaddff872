"""First process of a sandbox: trusted, tiny, never loads candidate code.

It forks the children that kforge asks for (builder, cell, audit), watches their number, memory and disk, reaps
them, and ends them all. In its own pid namespace it is process 1, so that its end is the end of everything in it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import tempfile
import time
from collections.abc import Set
from typing import Any

from ..shared import linux, names, wire
from . import sandbox, standstill

_TICK_S = 0.25
_STOP_LIMIT_S = 5.0
_STOP_AGAIN_S = 0.05


def main(message: dict[str, Any], fds: list[int]) -> None:
    """Called in a fresh fork of the zygote with one file descriptor: the channel to kforge."""
    names.held(message["policy"], names.POLICY, "a policy")
    policy = sandbox.Policy.parse(message["policy"])
    enforced = sandbox.Enforced()
    os.setsid()
    if linux.is_linux():
        linux.die_with_parent(signal.SIGKILL)
    if policy.namespaces:
        sandbox.unshare_namespaces(enforced)
    else:
        enforced.missing.append("namespaces: switched off")
    if enforced.namespaces:
        # A new pid namespace begins with the next child; this process only waits for it.
        pid = os.fork()
        if pid:
            for fd in fds:
                os.close(fd)
            os.waitpid(pid, 0)
            return
    if linux.is_linux():
        linux.die_with_parent(signal.SIGKILL)
        linux.adopt_orphans()
        linux.hide_memory()
        linux.short_slices(0)
    _Supervisor(socket.socket(fileno=fds[0]), policy, enforced).run()


class _Supervisor:
    def __init__(self, channel: socket.socket, policy: sandbox.Policy, enforced: sandbox.Enforced) -> None:
        self._channel = channel
        self._policy = policy
        self._enforced = enforced
        self._children: dict[int, int] = {}
        self._next_watch = 0.0
        self._wake, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        if not self._furnished():
            # Half-made namespaces are worse than none: this /proc is not ours. kforge asks again without them.
            reply = {"level": "none", "missing": self._enforced.missing, "unusable": True}
            wire.send_json(self._channel, reply)
            return
        sandbox.survey(self._policy, self._enforced)
        for name in ("build", "tmp", "home", "cache"):
            os.makedirs(os.path.join(self._policy.scratch, name), exist_ok=True)
        reply = {"level": self._enforced.level(), "missing": self._enforced.missing, "unusable": False}
        wire.send_json(self._channel, reply)
        while self._step():
            pass
        self._kill_everything()

    def _furnished(self) -> bool:
        try:
            sandbox.furnish(self._policy, self._enforced)
        except OSError as error:
            self._enforced.missing.append(f"namespaces: {error}")
            return False
        return self._enforced.fresh_proc or not self._enforced.namespaces

    def _step(self) -> bool:
        watched: list[Any] = [self._channel, self._wake]
        readable, _, _ = select.select(watched, [], [], _TICK_S)
        if self._wake in readable:
            os.read(self._wake, 4096)
        self._reap()
        if self._children and time.monotonic() > self._next_watch:
            self._watch()
            self._next_watch = time.monotonic() + _TICK_S
        if self._channel not in readable:
            return True
        received = wire.receive_json(self._channel)
        if received is None:
            return False
        self._obey(*received)
        return True

    def _obey(self, message: dict[str, Any], fds: list[int]) -> None:
        """An unknown order ends the sandbox, with what is wrong with it in kforge's log."""
        order = names.chosen(message, "do", names.ORDERS, "order")
        if order == "spawn":
            names.chosen(message["spec"], "role", names.ROLES, "role")
            self._spawn(message, fds)
        elif order == "freeze":
            wire.send_json(self._channel, {"frozen": self._freeze()})
        elif order == "thaw":
            self._signal_all(signal.SIGCONT)
        elif order == "count":
            wire.send_json(self._channel, {"count": len(self._pids())})
        elif order == "clear":
            kept = {pid for pid, number in self._children.items() if number in message["keep"]}
            self._kill_everything(kept)
            self._reap(block=not kept)
            wire.send_json(self._channel, {"cleared": True})

    def _spawn(self, message: dict[str, Any], fds: list[int]) -> None:
        if message["spec"].get("tools") and self._enforced.namespaces:
            with contextlib.suppress(OSError):  # the tool will say what it misses
                linux.loopback_up()
        pid = os.fork()
        if pid:
            for fd in fds:
                os.close(fd)
            self._children[pid] = message["id"]
            # With it kforge can wake the child at once, without a detour through this process while a clock runs.
            handle = [os.pidfd_open(pid)] if hasattr(os, "pidfd_open") else []
            wire.send_json(self._channel, {"spawned": message["id"]}, handle)
            for fd in handle:
                os.close(fd)
            return
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._channel.close()
            self._enter_child(message, fds)
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    def _enter_child(self, message: dict[str, Any], fds: list[int]) -> None:
        if linux.is_linux():
            linux.usual_slices()
        log = fds[-1]
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        scratch = self._policy.scratch
        os.environ.update(message["env"])
        tempfile.tempdir = None  # found out at import, in the zygote; to be found out anew from TMPDIR
        os.chdir(scratch)
        sandbox.confine(self._policy, self._enforced, tools=bool(message["spec"].get("tools")))
        if message["spec"]["role"] == names.INSPECTOR:
            from . import inspector

            inspector.main(message["spec"], fds[:-1])
        else:
            from . import cell

            if self._enforced.files:  # else others could look into it too
                linux.show_memory()
            cell.main(message["spec"], fds[:-1])

    def _reap(self, block: bool = False) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, 0 if block else os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._children:
                wire.send_json(self._channel, {"exited": self._children.pop(pid), "status": status})

    def _freeze(self) -> dict[str, Any]:
        """Stops everybody, and waits until every task stands still: a clock of kforge's ends here.

        `looked_us` is what it took to make sure of it, once all children had stopped.
        """
        begun = time.monotonic()
        patience = _STOP_AGAIN_S
        again = begun + patience
        self._signal_all(signal.SIGSTOP)
        while True:
            self._reap()
            looking = time.monotonic()
            if self._have_stopped() and (living := self._standing()) is not None and self._have_stopped():
                looked_us = 1e6 * (time.monotonic() - looking)
                return {"stopped": True, "living": living, "looked_us": looked_us}
            if looking > begun + _STOP_LIMIT_S:
                return {"stopped": False, "living": len(self._pids()), "looked_us": 0.0}
            if looking > again:
                # Who starts a program waits in the kernel until it runs, and that one was stopped before it did.
                self._signal_all(signal.SIGCONT)
                time.sleep(0.001)
                self._signal_all(signal.SIGSTOP)
                patience *= 2  # on a busy machine each thread waits for a processor before it stops
                again = time.monotonic() + patience
            time.sleep(0)

    def _have_stopped(self) -> bool:
        return all(standstill.has_stopped(pid) for pid in self._children)

    def _standing(self) -> int | None:
        """How many processes live, if every task stands still."""
        living = self._living_and_still()
        # One that was looked at late may have woken one that was looked at early.
        return living if living is None or living <= 1 else self._living_and_still()

    def _living_and_still(self) -> int | None:
        living = 0
        for pid in self._pids():
            letters = standstill.states(pid)
            if not standstill.stands_still(letters):
                return None
            living += standstill.lives(letters)
        return living

    def _watch(self) -> None:
        pids = self._pids()
        limit = None
        if len(pids) > self._policy.process_limit:
            limit = names.PROCESS_LIMIT
        elif self._memory_of(pids) > self._policy.memory_bytes:
            limit = names.OUT_OF_MEMORY
        elif not self._enforced.namespaces and _folder_bytes(self._policy.scratch) > self._policy.scratch_bytes:
            limit = names.DISK_LIMIT
        if limit:
            wire.send_json(self._channel, {"limit": limit})
            self._kill_everything()

    def _memory_of(self, pids: list[int]) -> int:
        """Beyond what each inherited from this process, and shares with it until it writes there."""
        inherited = _resident_bytes(os.getpid())
        return sum(max(0, _resident_bytes(pid) - inherited) for pid in pids)

    def _pids(self) -> list[int]:
        """Every process of this sandbox but this one."""
        own = os.getpid()
        everyone = [int(name) for name in os.listdir("/proc") if name.isdigit()] if linux.is_linux() else []
        if self._enforced.namespaces:
            return [pid for pid in everyone if pid != own]
        parents = {pid: _parent(pid) for pid in everyone}
        found: list[int] = []
        frontier = [own]
        while frontier:
            parent = frontier.pop()
            children = [pid for pid, of in parents.items() if of == parent and pid != own]
            found += children
            frontier += children
        return found or list(self._children)

    def _kill_everything(self, kept: Set[int] = frozenset()) -> None:
        """All but `kept`: children that wait for their turn and have loaded nothing yet."""
        if self._enforced.namespaces:
            if not kept:
                self._signal_all(signal.SIGKILL)
                return
            self._signal_all(signal.SIGSTOP)  # who is stopped does not fork
        for _ in range(500):  # a bomb may outrun one sweep
            doomed = [pid for pid in self._pids() if pid not in kept]
            if not doomed:
                break
            _signal(doomed, signal.SIGKILL)
            self._reap()
            time.sleep(0.002)
        if kept:
            self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        # In its own pid namespace -1 is everybody but this process, all at once.
        _signal([-1] if self._enforced.namespaces else self._pids(), number)


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _resident_bytes(pid: int) -> int:
    """Private memory and shared segments; files that it maps are not counted. A thread that has ended tells nothing, be it the
    first one: then any other tells it."""
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            if (told := _told_bytes(f"/proc/{pid}/task/{task}/status")) is not None:
                return told
    return 0


def _told_bytes(path: str) -> int | None:
    total: int | None = None
    try:
        with open(path) as file:
            for line in file:
                if line.startswith(("RssAnon:", "RssShmem:")):
                    total = (total or 0) + int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return total


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return -1


def _folder_bytes(path: str) -> int:
    total = 0
    for folder, _names, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total
