"""Messages between kforge and the harness.

Two kinds of channel. Trusted ones (zygote, supervisor, referee) speak JSON with a length in front, with file
descriptors attached where needed. The cell's channel is hostile: fixed 64-byte records with a nonce, nothing else.
"""

from __future__ import annotations

import array
import json
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# Operations that kforge asks of a cell.
OP_IMPORT = 1
OP_CONSTRUCT = 2
# Calls one after the other, on one place each; results stay where `forward` left them.
OP_ROW = 3
OP_LOAD_WEIGHTS = 4
OP_AUDIT = 5
OP_AHEAD_OF_TIME = 6
OP_PIN = 7
# Before a row, outside of every clock: old results go, arguments are made.
OP_READY = 8
OP_PROFILE = 9
OP_REPEAT = 11
# On a GPU: the same launches as a CUDA graph, and its kernels with their times.
OP_GRAPH = 12
OP_KERNELS = 13
# On a GPU: calls that are launched before their inputs are there, and the end of them.
OP_QUEUE = 14
OP_COLLECT = 15
# Results of the last row stay for good; results are copied before they are left.
OP_HOLD = 16
OP_CLONE = 17
# Of an inspector, which loads no candidate: compiler reports and disassembly of what was built.
OP_INSPECT = 10

_MAGIC = 0x4B46524B
_REQUEST = struct.Struct("<IIQQ40x")
_REPLY = struct.Struct("<IIQQQQI20s")
RECORD = 64
NULL_ROW = 1 << 32  # with the number of calls: nothing is called, which shows what asking takes
DETAIL_BYTES = 64 * 1024
CLAIMS_AT = 32 * 1024  # where results lie is told in the second half of the detail region
_MAX_JSON = 64 * 1024 * 1024
_MAX_FDS = 64


@dataclass(frozen=True)
class Request:
    op: int
    nonce: int
    argument: int


def read_request(channel: socket.socket) -> Request | None:
    """The next request, or None when kforge has closed the channel."""
    data = channel.recv(RECORD)
    if len(data) != RECORD:
        return None
    magic, op, nonce, argument = _REQUEST.unpack(data)
    return Request(op, nonce, argument) if magic == _MAGIC else None


def reply(nonce: int, kind: str, inside_ns: int = 0, a: int = 0, b: int = 0, detail: int = 0, flags: int = 0) -> bytes:
    return _REPLY.pack(_MAGIC, flags, nonce, inside_ns, a, b, detail, kind.encode()[:20])


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
    if size > _MAX_JSON:
        raise ValueError(f"message of {size} bytes")
    body = _receive(channel, size, fds)
    return None if body is None else (json.loads(body), fds)


def _receive(channel: socket.socket, size: int, fds: list[int]) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        data, ancillary, _flags, _address = channel.recvmsg(size - len(parts), socket.CMSG_SPACE(_MAX_FDS * 4))
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
                fds.extend(received)
        if not data:
            return None
        parts += data
    return bytes(parts)
