"""Where a problem's secret inputs and truths lie, so that they are computed once: a private folder of raw files."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ..shared import layout


class Store:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        os.makedirs(folder, mode=0o700, exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Two kforge processes on the same problem take turns."""
        with open(self.path("lock"), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def has(self, name: str) -> bool:
        return os.path.exists(self.path(name))

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def read_json(self, name: str) -> dict[str, Any] | None:
        try:
            with open(self.path(name), encoding="utf-8") as file:
                found: dict[str, Any] = json.load(file)
                return found
        except (OSError, ValueError):
            return None

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        temporary = self.path(f"{name}.{os.getpid()}.tmp")
        with open(temporary, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            json.dump(value, file)
        os.replace(temporary, self.path(name))

    def write_tensors(self, name: str, tensors: list[torch.Tensor]) -> list[layout.Field]:
        """One raw file, complete by rename; the fields say where each tensor lies."""
        fields, size = layout.plan(tensors)
        temporary = self.path(f"{name}.{os.getpid()}.tmp")
        with open(temporary, "w+b") as file:
            os.fchmod(file.fileno(), 0o600)
            file.truncate(size)
            with mmap.mmap(file.fileno(), size) as mapped:
                layout.write(fields, memoryview(mapped), tensors) if _any_bytes(fields) else None
        os.replace(temporary, self.path(name))
        return fields

    def read_tensors(self, name: str, fields: list[layout.Field]) -> list[torch.Tensor]:
        with open(self.path(name), "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        return [field.view(memoryview(mapped)) for field in fields]


def _any_bytes(fields: list[layout.Field]) -> bool:
    return any(field.nbytes for field in fields)
