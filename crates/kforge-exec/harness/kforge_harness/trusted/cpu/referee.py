"""The referee where tensors are in its own memory: kforge lays inputs and reads results itself."""

from __future__ import annotations

from .. import workers
from ..problem import Problem, ProblemError
from ..sets import Reference
from ..torch_device import referee as torch_referee


def key_parts() -> list[str]:
    """What is kept of a problem is kept for all processors alike."""
    return []


def after_answer() -> None:
    """Threads that spin would disturb whoever is timed next."""
    workers.dismiss()


def look(_problem: Problem, _shapes: list[dict[str, int]]) -> dict[str, int]:
    raise ProblemError("nobody reserves memory of this machine")


def too_large(reference: Reference | None, error: BaseException) -> str:
    return torch_referee.too_large_for("machine", "", reference, error)


def device_store(_tight: bool) -> None:
    """Sets are files."""


def free_bytes() -> float:
    raise ProblemError("nobody asks for memory of this machine")


def desk(_reference: Reference) -> None:
    """kforge lays and takes itself."""
