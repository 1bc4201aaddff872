"""What can go wrong with a kernel: its build, its flags, its launch."""

from __future__ import annotations


class BuildError(RuntimeError):
    """The compiler refused the source; `log` is what it printed."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class FlagError(BuildError):
    """A compiler flag that is not allowed."""


class LaunchError(RuntimeError):
    """A launcher returned something other than 0."""
