"""Messages: JSON with file descriptors on trusted channels, fixed records on hostile ones."""

from __future__ import annotations

import array
import os
import socket
import struct
from collections.abc import Iterator

import pytest

from kforge_harness.shared import wire
from kforge_harness.shared.names import Unknown

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


def request(magic: int = wire.MAGIC, op: int = wire.Op.ROW, nonce: int = 2**63 + 1, argument: int = 7) -> bytes:
    return struct.pack("<IIQQ40x", magic, op, nonce, argument)


def test_a_request_is_read(records: Ends) -> None:
    records[0].send(request())
    read = wire.read_request(records[1])
    assert read is not None
    assert (read.op, read.nonce, read.calls) == (wire.Op.ROW, 2**63 + 1, 7)


@pytest.mark.parametrize(
    "bad", [request(magic=1), request()[:63], request() + b"x", b"x"], ids=["magic", "short", "long", "tiny"]
)
def test_what_is_no_request_ends_the_service(records: Ends, bad: bytes) -> None:
    records[0].send(bad)
    assert wire.read_request(records[1]) is None


def test_a_closed_channel_ends_the_service(records: Ends) -> None:
    records[0].close()
    assert wire.read_request(records[1]) is None


@pytest.mark.parametrize("code", [0, max(wire.Op) + 1, 2**32 - 1])
def test_an_operation_that_is_not_there_is_refused(code: int) -> None:
    with pytest.raises(Unknown, match=f"there is no operation {code}"):
        _ = wire.Request(code, 1).op


def test_each_operation_has_the_number_that_is_its_own() -> None:
    numbers = ("variant", "calls", "on", "look", "is_null")
    for op in wire.Op:
        own = wire.ARGUMENTS.get(op)
        for name in numbers:
            asked = wire.Request(op, 1, 1) if own else wire.Request(op, 1)
            if name == own or (name, own) == ("is_null", "calls"):
                assert getattr(asked, name) in (1, True, False, wire.Look.DISASSEMBLE)
                continue
            with pytest.raises(Unknown, match=f"{op.name} has no"):
                getattr(asked, name)


def test_a_number_is_held_to_what_it_can_be() -> None:
    for op, end in ((wire.Op.ROW, 2**32), (wire.Op.READY, 2**33), (wire.Op.PIN, 2), (wire.Op.CONSTRUCT, 2**16)):
        name = wire.ARGUMENTS[op]
        getattr(wire.Request(op, 1, end - 1), name)
        with pytest.raises(Unknown, match=f"{end} is no {name} of {op.name}"):
            getattr(wire.Request(op, 1, end), name)
    with pytest.raises(Unknown, match="6 is no look of INSPECT"):
        _ = wire.Request(wire.Op.INSPECT, 1, len(wire.Look)).look
    with pytest.raises(Unknown, match="IMPORT takes no number, and 1 came with it"):
        _ = wire.Request(wire.Op.IMPORT, 1, 1).op


def test_only_what_is_made_ready_may_call_nothing() -> None:
    ready = wire.Request(wire.Op.READY, 1, 3 | wire.NULL_ROW)
    assert (ready.calls, ready.is_null) == (3, True)
    assert not wire.Request(wire.Op.READY, 1, 3).is_null
    with pytest.raises(Unknown, match="no calls of ROW"):
        _ = wire.Request(wire.Op.ROW, 1, 3 | wire.NULL_ROW).calls


def test_an_answer_has_one_size_and_known_places() -> None:
    data = wire.answered(wire.Request(wire.Op.AUDIT, 99), wire.Audited(5, 6, 7))
    assert len(data) == wire.RECORD
    *numbers, word = struct.unpack("<IIQQQQ24s", data)
    assert numbers == [wire.MAGIC, wire.Op.AUDIT, 99, 5, 6, 7]
    assert word.rstrip(b"\0") == b"ok"


def test_the_first_record_answers_nothing() -> None:
    assert struct.unpack("<IIQQQQ24s", wire.hello())[1:6] == (0, 0, 0, 0, 0)


def test_every_operation_has_an_answer_and_takes_no_other() -> None:
    assert set(wire.ANSWERS) == set(wire.Op)
    for op, kind in wire.ANSWERS.items():
        answer = kind(*range(len(kind._fields)))
        assert len(answer) <= 3 and len(wire.answered(wire.Request(op, 1), answer)) == wire.RECORD
        other: wire.Answer = wire.Done() if kind is not wire.Done else wire.Ran(1, 2)
        with pytest.raises(Unknown, match=f"is no answer to {op.name}"):
            wire.answered(wire.Request(op, 1), other)


def test_a_long_word_is_cut_not_grown() -> None:
    data = wire.failed(wire.Request(1, 1), "k" * 100)
    assert len(data) == wire.RECORD and data.endswith(b"\0" + b"k" * 24)
