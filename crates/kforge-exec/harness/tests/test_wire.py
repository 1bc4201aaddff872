"""Messages: JSON with file descriptors on trusted channels, fixed records on hostile ones."""

from __future__ import annotations

import array
import os
import socket
import struct
from collections.abc import Iterator

import pytest

from kforge_harness.shared import wire

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def stream() -> Iterator[Ends]:
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    yield ends
    for end in ends:
        end.close()


def test_messages_come_in_order(stream: Ends) -> None:
    here, there = stream
    wire.send_json(here, {"do": "a", "text": "ü\n\0"})
    wire.send_json(here, {"do": "b", "list": [1, 2.5, None]})
    assert wire.receive_json(there) == ({"do": "a", "text": "ü\n\0"}, [])
    assert wire.receive_json(there) == ({"do": "b", "list": [1, 2.5, None]}, [])


def test_file_descriptors_come_with_their_message(stream: Ends) -> None:
    here, there = stream
    read, write = os.pipe()
    body = b'{"do": "spawn"}'
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [write, read]))]
    here.sendmsg([struct.pack("<I", len(body)) + body], rights)
    received = wire.receive_json(there)
    assert received is not None
    message, fds = received
    assert message == {"do": "spawn"} and len(fds) == 2
    os.write(fds[0], b"through")
    assert os.read(fds[1], 100) == b"through", "in the order they were sent"
    for fd in (read, write, *fds):
        os.close(fd)


def test_a_message_in_many_pieces_is_put_together(stream: Ends) -> None:
    here, there = stream
    body = b'{"k": "' + b"x" * 50 + b'"}'
    data = struct.pack("<I", len(body)) + body
    for i in range(0, len(data), 7):
        here.sendall(data[i : i + 7])
    received = wire.receive_json(there)
    assert received is not None and received[0] == {"k": "x" * 50}


def test_the_end_of_the_stream_is_none(stream: Ends) -> None:
    here, there = stream
    here.close()
    assert wire.receive_json(there) is None


def test_a_cut_message_is_none(stream: Ends) -> None:
    here, there = stream
    here.sendall(struct.pack("<I", 100) + b"{")
    here.close()
    assert wire.receive_json(there) is None


def test_an_oversize_message_is_refused_before_it_is_read(stream: Ends) -> None:
    here, there = stream
    here.sendall(struct.pack("<I", 2**31))
    with pytest.raises(ValueError, match="2147483648"):
        wire.receive_json(there)


@pytest.fixture
def records() -> Iterator[Ends]:
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield ends
    for end in ends:
        end.close()


def request(magic: int = 0x4B46524B, op: int = wire.OP_ROW, nonce: int = 2**63 + 1, argument: int = 7) -> bytes:
    return struct.pack("<IIQQ40x", magic, op, nonce, argument)


def test_a_request_is_read(records: Ends) -> None:
    records[0].send(request())
    assert wire.read_request(records[1]) == wire.Request(wire.OP_ROW, 2**63 + 1, 7)


@pytest.mark.parametrize("bad", [request(magic=1), request()[:63], b"x"], ids=["magic", "short", "tiny"])
def test_what_is_no_request_ends_the_service(records: Ends, bad: bytes) -> None:
    records[0].send(bad)
    assert wire.read_request(records[1]) is None


def test_a_closed_channel_ends_the_service(records: Ends) -> None:
    records[0].close()
    assert wire.read_request(records[1]) is None


def test_a_reply_has_one_size_and_known_places() -> None:
    data = wire.reply(99, "ok", inside_ns=5, a=6, b=7, detail=8, flags=9)
    assert len(data) == wire.RECORD
    magic, flags, nonce, inside, a, b, detail, kind = struct.unpack("<IIQQQQI20s", data)
    assert (magic, flags, nonce, inside, a, b, detail) == (0x4B46524B, 9, 99, 5, 6, 7, 8)
    assert kind.rstrip(b"\0") == b"ok"


def test_a_long_kind_is_cut_not_grown() -> None:
    data = wire.reply(1, "k" * 100)
    assert len(data) == wire.RECORD and data.endswith(b"k" * 20)
