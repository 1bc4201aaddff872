"""Whether processes stand still, task by task, as the system tells it.

That a process was stopped does not say so. One whose first thread waits in the kernel for a child that it shares its memory
with, as vfork does, was given the signal and has not acted upon it: its other threads run on.
"""

from __future__ import annotations

import os

# Stopped, traced, ended and waited for, gone.
_STILL = b"TtZX"
_ENDED = b"ZX"


def states(pid: int) -> bytes:
    """A letter for each task of a process; none where it is gone."""
    folder = f"/proc/{pid}/task"
    try:
        tasks = os.listdir(folder)
    except OSError:
        return b""
    return b"".join(_state(f"{folder}/{task}/stat") for task in tasks)


def _state(path: str) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        told = os.read(file, 512)
    except OSError:
        return b""
    finally:
        os.close(file)
    # Behind its name, which may hold anything.
    at = told.rfind(b") ") + 2
    return told[at : at + 1]


def stands_still(letters: bytes) -> bool:
    return all(letter in _STILL for letter in letters)


def lives(letters: bytes) -> bool:
    return any(letter not in _ENDED for letter in letters)


def has_stopped(child: int) -> bool:
    """Whether a child of this process has stopped with all of its threads, or has ended; asking changes nothing."""
    if not hasattr(os, "waitid"):
        return True
    options = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT
    try:
        return os.waitid(os.P_PID, child, options) is not None
    except ChildProcessError:
        return True
