"""Messages between kforge and the harness.

Two kinds of channel. Trusted ones (zygote, supervisor, referee) speak JSON with a length in front, with file
descriptors attached where needed: `names.py` has the words. The cell's channel is hostile: fixed 64-byte records with a
nonce, nothing else.

What is defined here is defined in `src/wire/` of kforge too; a test there reads this module and compares.
"""

from __future__ import annotations

import array
import enum
import json
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .names import Unknown

MAGIC = 0x4B46524B
# Magic, operation, nonce, argument.
_REQUEST = struct.Struct("<IIQQ40x")
# Magic, operation that is answered, its nonce, the numbers of the answer in their order, the word.
_REPLY = struct.Struct("<IIQQQQ24s")
RECORD = 64
READY, OK = "ready", "ok"
NULL_ROW = 1 << 32  # with the number of calls: nothing is called, which shows what asking takes
DETAIL_BYTES = 64 * 1024
CLAIMS_AT = 32 * 1024  # where results lie is told in the second half of the detail region
SLOT_ALIGN, GATE_BYTES = 512, 256  # of places in an input slot: what torch's own allocator gives
MAX_JSON = 64 * 1024 * 1024
MAX_FDS = 64


class Op(enum.IntEnum):
    """What kforge asks of a cell."""

    IMPORT = 1
    CONSTRUCT = 2
    # Calls one after the other, on one place each; results stay where `forward` left them.
    ROW = 3
    LOAD_WEIGHTS = 4
    AUDIT = 5
    PIN = 6
    # Before a row, outside of every clock: old results go, arguments are made.
    READY = 7
    # Results of the last row stay for good; results are copied before they are left.
    HOLD_RESULTS = 8
    COPY_RESULTS = 9
    REPEAT = 10
    # Of the reference: operators with their times. Of anybody: kernels on the GPU with theirs.
    PROFILE = 11
    KERNELS = 12
    # On a GPU: the same launches as a CUDA graph.
    GRAPH = 13
    # On a GPU: calls that are launched before their inputs are there, and the end of them.
    QUEUE = 14
    COLLECT = 15
    # Of an inspector, which loads no candidate: compiler reports and disassembly of what was built, and tools.
    INSPECT = 16
    # Of a cell that interprets Triton, one that compiles for a device elsewhere, and a baseline.
    KEEP_LAUNCHES = 17
    COMPILE_KERNELS = 18
    COMPILE_ONLY = 19


_OPS: dict[int, Op] = {op.value: op for op in Op}  # a look here is a part of what asking takes


class Look(enum.IntEnum):
    """What an inspector is asked for."""

    REPORT = 0
    DISASSEMBLE = 1
    START = 2
    COLLECT = 3
    RESOURCES = 4
    SASS = 5


class Done(NamedTuple):
    """Nothing but that."""


class Constructed(NamedTuple):
    prepare_ns: int
    unplaced: int  # weights of the reference that found no place


class Ran(NamedTuple):
    inside_ns: int
    launching_ns: int


class Queued(NamedTuple):
    launching_ns: int


class Collected(NamedTuple):
    inside_ns: int


class Audited(NamedTuple):
    inside_ns: int
    launches: int
    operators_ns: int


class Replayed(NamedTuple):
    replay_ns: int


class Inspected(NamedTuple):
    length: int  # of the JSON in the output region


class Kept(NamedTuple):
    launches: int


class Compiled(NamedTuple):
    kernels: int
    unchecked: int


Answer = Done | Constructed | Ran | Queued | Collected | Audited | Replayed | Inspected | Kept | Compiled

ANSWERS: dict[Op, type[Answer]] = {
    **dict.fromkeys(Op, Done),
    Op.CONSTRUCT: Constructed,
    Op.ROW: Ran,
    Op.AUDIT: Audited,
    Op.GRAPH: Replayed,
    Op.QUEUE: Queued,
    Op.COLLECT: Collected,
    Op.INSPECT: Inspected,
    Op.KEEP_LAUNCHES: Kept,
    Op.COMPILE_KERNELS: Compiled,
}

# The number that comes with an operation; none with the others.
ARGUMENTS: dict[Op, str] = {
    **dict.fromkeys((Op.CONSTRUCT, Op.LOAD_WEIGHTS), "variant"),
    **dict.fromkeys((Op.PIN, Op.COPY_RESULTS), "on"),
    **dict.fromkeys((Op.ROW, Op.READY, Op.QUEUE, Op.COLLECT, Op.REPEAT, Op.PROFILE, Op.KERNELS, Op.GRAPH), "calls"),
    Op.INSPECT: "look",
}


@dataclass(frozen=True)
class Request:
    """One operation. Its number is asked for by the name that it has there, and held to what it can be."""

    code: int
    nonce: int
    argument: int = 0

    @property
    def op(self) -> Op:
        op = _OPS.get(self.code)
        if op is None:
            raise Unknown(f"there is no operation {self.code}")
        if self.argument and op not in ARGUMENTS:
            raise Unknown(f"{op.name} takes no number, and {self.argument} came with it")
        return op

    @property
    def variant(self) -> int:
        return self._number("variant", 1 << 16)

    @property
    def calls(self) -> int:
        return self._number("calls", self._end_of_calls()) % NULL_ROW

    @property
    def is_null(self) -> bool:
        """Whether nothing will be called."""
        return self._number("calls", self._end_of_calls()) >= NULL_ROW

    def _end_of_calls(self) -> int:
        return 2 * NULL_ROW if self.code == Op.READY else NULL_ROW

    @property
    def on(self) -> bool:
        return bool(self._number("on", 2))

    @property
    def look(self) -> Look:
        return Look(self._number("look", len(Look)))

    def _number(self, name: str, end: int) -> int:
        op = self.op
        if ARGUMENTS.get(op) != name:
            raise Unknown(f"{op.name} has no {name}")
        if self.argument >= end:
            raise Unknown(f"{self.argument} is no {name} of {op.name}")
        return self.argument


def read_request(channel: socket.socket) -> Request | None:
    """The next request, or None when kforge has closed the channel, or has sent what is no record."""
    data = channel.recv(RECORD + 1)
    if len(data) != RECORD:
        return None
    magic, code, nonce, argument = _REQUEST.unpack(data)
    return Request(code, nonce, argument) if magic == MAGIC else None


def hello() -> bytes:
    """The first record of a process: all before it was ours."""
    return _record(0, 0, READY, Done())


def answered(request: Request, answer: Answer) -> bytes:
    if type(answer) is not ANSWERS[request.op]:
        raise Unknown(f"{type(answer).__name__} is no answer to {request.op.name}")
    return _record(request.code, request.nonce, OK, answer)


def failed(request: Request, kind: str) -> bytes:
    return _record(request.code, request.nonce, kind, Done())


def _record(code: int, nonce: int, word: str, answer: Answer) -> bytes:
    numbers = (*answer, 0, 0, 0)[:3]
    return _REPLY.pack(MAGIC, code, nonce, *numbers, word.encode()[:24])


def send_json(channel: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    # Texts of hostile origin may hold lone surrogates, which no other JSON reader takes.
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    head = struct.pack("<I", len(data))
    if fds:
        socket.send_fds(channel, [head], list(fds))
        head = b""
    channel.sendall(head + data)


def receive_json(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message with its file descriptors, or None at the end of the stream."""
    fds: list[int] = []
    head = _receive(channel, 4, fds)
    if head is None:
        return None
    (size,) = struct.unpack("<I", head)
    if size > MAX_JSON:
        raise ValueError(f"message of {size} bytes")
    body = _receive(channel, size, fds)
    return None if body is None else (json.loads(body), fds)


def _receive(channel: socket.socket, size: int, fds: list[int]) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        data, ancillary, _flags, _address = channel.recvmsg(size - len(parts), socket.CMSG_SPACE(MAX_FDS * 4))
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
                fds.extend(received)
        if not data:
            return None
        parts += data
    return bytes(parts)
