"""What stands still, and what only seems to: a supervisor's stop is over when no task of its sandbox runs."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kforge_harness.hostile import sandbox, standstill, supervisor

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc")


def until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 5
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.002)
    return holds()


def forked(child: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            child()
        finally:
            os._exit(0)
    return pid


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def spins() -> None:
    while True:
        pass


@pytest.fixture
def spinner() -> Iterator[int]:
    pid = forked(spins)
    yield pid
    end(pid)


def overseer(children: list[int]) -> supervisor._Supervisor:
    """Without namespaces, and over no other processes than these."""
    made = object.__new__(supervisor._Supervisor)
    made._enforced = sandbox.Enforced()
    made._children = dict.fromkeys(children, 1)
    made._pids = lambda: list(children)  # type: ignore[method-assign]
    made._reap = lambda block=False: None  # type: ignore[method-assign]
    return made


def test_who_runs_and_who_was_stopped_differ(spinner: int) -> None:
    assert not standstill.stands_still(standstill.states(spinner))
    assert not standstill.has_stopped(spinner)
    os.kill(spinner, signal.SIGSTOP)
    assert until(lambda: standstill.has_stopped(spinner))
    assert standstill.has_stopped(spinner), "asking changes nothing"
    assert standstill.states(spinner) == b"T"
    os.kill(spinner, signal.SIGCONT)
    assert until(lambda: not standstill.has_stopped(spinner))


def test_who_has_ended_stands_still_and_does_not_live() -> None:
    pid = forked(lambda: None)
    assert until(lambda: standstill.states(pid) == b"Z")
    assert standstill.stands_still(b"Z") and not standstill.lives(b"Z") and standstill.lives(b"ZT")
    os.waitpid(pid, 0)
    assert standstill.states(pid) == b"" and standstill.has_stopped(pid)


def test_a_name_says_nothing_about_a_state() -> None:
    def named() -> None:
        ctypes.CDLL(None).prctl(15, b"x) T (", 0, 0, 0)
        spins()

    pid = forked(named)
    try:
        assert until(lambda: b"x) T (" in Path(f"/proc/{pid}/comm").read_bytes())
        assert standstill.states(pid) == b"R"
    finally:
        end(pid)


def test_a_freeze_is_over_when_everybody_stands_still(spinner: int) -> None:
    other = forked(spins)
    try:
        told = overseer([spinner, other])._freeze()
        assert told["stopped"] and told["living"] == 2 and told["looked_us"] > 0
        assert standstill.states(spinner) + standstill.states(other) == b"TT"
    finally:
        end(other)


# Its first thread waits as in vfork, its second one works on.
SHIELDED = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static char stack[1 << 16];
static int waits(void *_) { for (;;) pause(); }
static void *works(void *_) { for (;;) __asm__ volatile(""); }
int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, works, 0);
  puts("there");
  fflush(stdout);
  clone(waits, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, 0);
}
"""


def test_who_hides_behind_a_wait_in_the_kernel_never_counts_as_stopped(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_STOP_LIMIT_S", 0.3)
    program = os.path.join(tmp_path, "shielded")
    subprocess.run(["cc", "-x", "c", "-", "-o", program, "-pthread"], input=SHIELDED, text=True, check=True)
    shielded = subprocess.Popen([program], stdout=subprocess.PIPE)
    try:
        assert shielded.stdout is not None and shielded.stdout.readline() == b"there\n"
        assert until(lambda: standstill.states(shielded.pid).startswith(b"D"))
        told = overseer([shielded.pid])._freeze()
        assert not told["stopped"]
    finally:
        for pid in children_of(shielded.pid):
            os.kill(pid, signal.SIGKILL)
        shielded.kill()
        shielded.wait()
        if shielded.stdout is not None:
            shielded.stdout.close()


def children_of(parent: int) -> list[int]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if supervisor._parent(pid) == parent]


def test_a_program_that_is_being_started_is_let_through() -> None:
    """Who starts it waits in the kernel until it runs: stopped at that moment, neither could go on."""

    def starts() -> None:
        while True:
            subprocess.run(["true"], check=True)

    pid = forked(starts)
    made = overseer([pid])
    made._pids = lambda: [pid, *children_of(pid)]  # type: ignore[method-assign]
    try:
        for _ in range(20):
            time.sleep(0.003)
            assert made._freeze()["stopped"]
            made._signal_all(signal.SIGCONT)
    finally:
        made._signal_all(signal.SIGKILL)
        os.waitpid(pid, 0)
