"""What can go wrong with a kernel: its build, its flags, its launch."""

from __future__ import annotations


class BuildError(RuntimeError):
    """The compiler refused the source; `log` is what it printed."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class MissingCompiler(BuildError):
    """There is no such compiler on this machine, which is not the source's fault; `tool` is `kforge doctor`'s name for it."""

    def __init__(self, message: str, tool: str) -> None:
        super().__init__(message)
        self.tool = tool


class FlagError(BuildError):
    """A compiler flag that is not allowed."""


class LaunchError(RuntimeError):
    """A launcher returned something other than 0."""
