"""What the referee refuses to be asked."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from support import simple

from kforge_harness.shared import wire
from kforge_harness.trusted import referee


def _answers(folder: Path, monkeypatch: pytest.MonkeyPatch, *requests: dict[str, Any]) -> list[dict[str, Any]]:
    """All are sent before it begins, and it ends with the last one."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    monkeypatch.chdir(folder)  # and back: it has a folder of its own
    for request in requests:
        wire.send_json(here, request)
    here.shutdown(socket.SHUT_WR)
    told = {"env": {}, "python_path": [], "cwd": str(folder), "threads": 1, "place": "cpu"}
    referee.main(told, [os.dup(there.fileno())])
    there.close()
    answers = []
    while (received := wire.receive_json(here)) is not None:
        answers.append(received[0])
    here.close()
    return answers


def test_what_it_does_not_know_is_told_and_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simple(tmp_path, "x * 2")
    path = str(tmp_path / "problem.py")
    opened = {"store": str(tmp_path), "session_store": str(tmp_path), "secret": "00", "fresh": True, "reduced": False}
    asked: list[tuple[dict[str, Any], str]] = [
        ({"do": "fly"}, "'fly' is no request of the referee's"),
        ({"do": "set", "variant": 0, "distribution": "own", "number": 0}, "no problem is loaded"),
        ({"do": "load", "path": path, "place": "cpu"}, "has unknown place"),
        ({"do": "load", "path": path}, ""),
        ({"do": "set", "variant": 0, "distribution": "own", "number": 0}, "no problem is opened"),
        ({"do": "open", "contract": {}, **opened}, ""),
        ({"do": "set", "variant": 0, "distribution": "odd", "number": 0}, "'odd' is no distribution"),
        ({"do": "draw", "distribution": "odd", "truths": []}, "'odd' is no distribution"),
        ({"do": "draw", "distribution": "own"}, "lacks truths"),
        ({"do": "wipe", "lane": 0}, "is for a problem that was opened on a device"),
        ({"do": "set", "variant": 0, "distribution": "own", "number": 0}, ""),
    ]
    answers = _answers(tmp_path, monkeypatch, *(request for request, _why in asked))
    assert len(answers) == len(asked)
    for (request, why), answer in zip(asked, answers, strict=True):
        said = answer.get("internal_error") or answer.get("problem_error") or ""
        assert (why in said) if why else not said, (request, answer)
