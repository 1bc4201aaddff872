"""A cell in a process of its own: rows of calls, and results read out of its memory where it says that they are."""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from kforge_harness.shared import layout, wire
from kforge_harness.shared.slot_layout import Plan

PLACES = 3
ROWS, COLUMNS = 4, 8
X = torch.zeros(ROWS, COLUMNS)
START = "import json, sys; from kforge_harness.hostile import cell; cell.main(*json.loads(sys.argv[1]))"
HEAD = "import torch\nfrom torch import nn\n"
DOUBLES = """
    class ModelNew(nn.Module):
        def forward(self, x):
            return x * 2
"""
SAME_BUFFER = """
    class ModelNew(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = torch.empty(4, 8)
        def forward(self, x):
            return torch.mul(x, 2, out=self.out)
"""


class Cell:
    """One process, asked as kforge asks."""

    def __init__(self, source: str, folder: Path, **more: Any) -> None:
        inputs, input_bytes = layout.plan([X])
        outputs, output_bytes = layout.plan([X] * (1 + len(more.get("written_names", []))))
        plan = Plan(input_bytes, output_bytes, PLACES)
        skeleton, _tensors = layout.split([X])
        variant = {
            "init": layout.pack([]),
            "input_skeleton": layout.pack(skeleton),
            "output_skeleton": layout.pack(layout.Slot(0)),
            "inputs": [asdict(f) for f in inputs],
            "outputs": [asdict(f) for f in outputs],
            "weights": [],
            "training": True,
            "autograd": False,
            "aliases_allowed": False,
            "shared_outputs": [False] * len(outputs),
            "written_inputs": more.get("written_inputs", []),
            "written_buffers": [],
            "written_names": more.get("written_names", []),
        }
        spec = {
            "role": "candidate",
            "baseline": "",
            "source": HEAD + textwrap.dedent(source),
            "filename": "candidate.py",
            "search_path": [],
            "variants": [variant],
            "input_bytes": input_bytes,
            "output_bytes": output_bytes,
            "threads": 1,
            "prepare": True,
            "skip_kernels": False,
            "triton": False,
            "aot": False,
            "arch": "",
            "model": "cpp",
            "place": "cpu",
            "mul": "fp32",
            "places": PLACES,
            "keeps": True,
            "copies": more.get("copies", False),
            "staged": False,
        }
        self.fields = outputs
        self._output_bytes = output_bytes
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._here.settimeout(60)
        sizes = [plan.input_size, PLACES * output_bytes, wire.DETAIL_BYTES, 1]
        files = [os.memfd_create("cell") for _ in sizes]
        for file, size in zip(files, sizes, strict=True):
            os.ftruncate(file, size)
        self._inputs = plan.inputs(memoryview(mmap.mmap(files[0], sizes[0])))
        self._copies, self._detail = (mmap.mmap(files[i], sizes[i]) for i in (1, 2))
        fds = [there.fileno(), *files]
        told = json.dumps([spec, fds])
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        self._process = subprocess.Popen([sys.executable, "-c", START, told], pass_fds=fds, cwd=folder, env=env)
        there.close()
        for file in files:
            os.close(file)
        assert self._answer(0, 0)[0] == wire.READY

    def _answer(self, op: int, nonce: int) -> tuple[str, list[int]]:
        *head, a, b, c, word = struct.unpack("<IIQQQQ24s", self._here.recv(wire.RECORD))
        assert head == [wire.MAGIC, op, nonce]
        return word.rstrip(b"\0").decode(), [a, b, c]

    def ask(self, op: int, argument: int = 0) -> tuple[str, list[int]]:
        self._here.send(struct.pack("<IIQQ40x", wire.MAGIC, op, 7, argument))
        return self._answer(op, 7)

    def construct(self) -> None:
        for op in (wire.Op.IMPORT, wire.Op.CONSTRUCT):
            assert self.ask(op)[0] == "ok", self.said()

    def said(self) -> str:
        return bytes(self._detail[: wire.CLAIMS_AT]).split(b"\0")[0].decode()

    def row(self, given: list[torch.Tensor]) -> tuple[str, int]:
        """Calls on these inputs; nanoseconds as the cell claims them."""
        kind = self.ask(wire.Op.READY, len(given))[0]
        assert kind == "ok", self.said()
        for place, x in enumerate(given):
            torch.frombuffer(self._inputs[place], dtype=torch.float32, count=x.numel()).copy_(x.reshape(-1))
        kind, (inside, _launching, _none) = self.ask(wire.Op.ROW, len(given))
        return kind, inside

    def claims(self, calls: int) -> list[list[tuple[int, int, list[int]]]]:
        """Segment, place and strides of each output, call by call."""
        words = iter(struct.unpack(f"<{4096}q", self._detail[wire.CLAIMS_AT :]))
        return [
            [(next(words), next(words), [next(words) for _ in field.shape]) for field in self.fields]
            for _ in range(calls)
        ]

    def results(self, calls: int) -> list[list[torch.Tensor]]:
        """Read where the process says that they are, by nobody's leave."""
        with open(f"/proc/{self._process.pid}/mem", "rb", buffering=0) as memory:
            return [[self._read(memory, *claim) for claim in call] for call in self.claims(calls)]

    def _read(self, memory: Any, _segment: int, at: int, strides: list[int]) -> torch.Tensor:
        reach = 1 + sum((size - 1) * stride for size, stride in zip(X.shape, strides, strict=True))
        memory.seek(at)
        data = bytearray(memory.read(4 * reach))
        return torch.frombuffer(data, dtype=torch.float32).as_strided(X.shape, strides)

    def copies(self, place: int) -> torch.Tensor:
        start = place * self._output_bytes
        return self.fields[0].view(bytearray(self._copies[start : start + self._output_bytes]))

    def end(self) -> None:
        self._here.close()
        self._process.wait(30)


Start = Callable[..., Cell]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made: list[Cell] = []

    def new(source: str, **more: Any) -> Cell:
        made.append(Cell(source, tmp_path, **more))
        return made[-1]

    yield new
    for cell in made:
        cell.end()


def _given(calls: int) -> list[torch.Tensor]:
    return [torch.randn(ROWS, COLUMNS) for _ in range(calls)]


def _addresses(cell: Cell, calls: int) -> list[int]:
    return [call[0][1] for call in cell.claims(calls)]


def test_results_of_a_row_are_read_out_of_its_memory(start: Start) -> None:
    cell = start(DOUBLES)
    cell.construct()
    before: set[int] = set()
    for calls in (3, 1, 2):
        given = _given(calls)
        kind, inside = cell.row(given)
        assert kind == "ok" and inside > 0
        for (got,), x in zip(cell.results(calls), given, strict=True):
            assert torch.equal(got, 2 * x)
        addresses = set(_addresses(cell, calls))
        assert len(addresses) == calls and not addresses & before, "the row before is still there"
        before = addresses


def test_a_strided_result_is_told_with_its_strides(start: Start) -> None:
    cell = start(
        """
        class ModelNew(nn.Module):
            def forward(self, x):
                return x.t().contiguous().t()
        """
    )
    cell.construct()
    (x,) = given = _given(1)
    assert cell.row(given)[0] == "ok"
    assert cell.claims(1)[0][0][2] == [1, ROWS] and torch.equal(cell.results(1)[0][0], x)


def test_a_buffer_that_is_used_again_shows_and_a_copy_of_it_does_not(start: Start) -> None:
    cell = start(SAME_BUFFER)
    cell.construct()
    given = _given(2)
    assert cell.row(given)[0] == "ok"
    assert len(set(_addresses(cell, 2))) == 1
    assert all(torch.equal(got, 2 * given[1]) for (got,) in cell.results(2))
    assert cell.ask(wire.Op.COPY_RESULTS, 1)[0] == "ok"
    assert cell.row(given)[0] == "ok"
    assert len(set(_addresses(cell, 2))) == 2
    assert all(torch.equal(got, 2 * x) for (got,), x in zip(cell.results(2), given, strict=True))


def test_a_row_of_nothing_calls_nothing(start: Start) -> None:
    cell = start(
        """
        class ModelNew(nn.Module):
            def forward(self, x):
                raise ValueError("called")
        """
    )
    cell.construct()
    assert cell.ask(wire.Op.READY, 3 | wire.NULL_ROW)[0] == "ok"
    assert cell.ask(wire.Op.ROW, 3)[0] == "ok"
    assert len(set(_addresses(cell, 3))) == 3
    assert cell.row(_given(1))[0] == "exception" and "called" in cell.said()


def test_held_results_are_not_given_to_later_calls(start: Start) -> None:
    cell = start(DOUBLES)
    cell.construct()
    (x,) = given = _given(1)
    cell.row(given)
    held = cell.claims(1)[0][0]
    assert cell.ask(wire.Op.HOLD_RESULTS)[0] == "ok"
    for _ in range(8):
        cell.row(_given(3))
        assert held[1] not in _addresses(cell, 3)
    with open(f"/proc/{cell._process.pid}/mem", "rb", buffering=0) as memory:
        assert torch.equal(cell._read(memory, *held), 2 * x)


def test_a_result_that_is_none_is_refused_with_a_reason(start: Start) -> None:
    cell = start(
        """
        class ModelNew(nn.Module):
            def __init__(self):
                super().__init__()
                self.wrong = iter([lambda x: x, lambda x: x.double(), lambda x: x[0],
                                   lambda x: x[:1].clone().expand(4, 8), lambda x: [x]])
            def forward(self, x):
                return next(self.wrong)(x)
        """
    )
    cell.construct()
    for kind in ("alias", "dtype", "shape", "strides", "structure"):
        assert cell.row(_given(1))[0] == kind and cell.said().startswith("output: "), kind


def test_where_nobody_can_read_its_memory_results_are_copied(start: Start) -> None:
    cell = start(SAME_BUFFER, copies=True)
    cell.construct()
    (x,) = given = _given(1)
    assert cell.row(given)[0] == "ok"
    assert cell.claims(1)[0][0] == (0, 0, [COLUMNS, 1])
    assert torch.equal(cell.copies(0), 2 * x)


def test_an_input_that_must_be_written_is_told_behind_what_was_returned(start: Start) -> None:
    cell = start(
        """
        class ModelNew(nn.Module):
            def forward(self, x):
                made = x * 2
                x.add_(1)
                return made
        """,
        written_inputs=[0],
        written_names=["input 0 (x)"],
    )
    cell.construct()
    (x,) = given = _given(1)
    assert cell.row(given)[0] == "ok"
    (returned, written) = cell.results(1)[0]
    assert torch.equal(returned, 2 * x) and torch.equal(written, x + 1)


def test_what_a_cell_does_not_know_is_refused_and_it_goes_on(start: Start) -> None:
    cell = start(DOUBLES)
    cell.construct()
    for op, argument, why in (
        (99, 0, "there is no operation 99"),
        (wire.Op.INSPECT, 0, "a cell does no INSPECT"),
        (wire.Op.LOAD_WEIGHTS, 1, "there are 1 variants, and no number 1"),
        (wire.Op.PIN, 2, "2 is no on of PIN"),
        (wire.Op.HOLD_RESULTS, 2, "HOLD_RESULTS takes no number"),
    ):
        assert cell.ask(op, argument)[0] == "protocol" and why in cell.said(), why
    (x,) = given = _given(1)
    assert cell.row(given)[0] == "ok" and torch.equal(cell.results(1)[0][0], 2 * x)
